"""Reads what ``imap`` is given, no further ahead of its consumer than a window."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from fibernb.multiprocessing.pooling.jobs import Fed, Listed

AHEAD_ITEMS: Final = 1_000  # that may be read and not consumed, at least
AHEAD_OF_EACH: Final = 4  # items for each worker of a large pool


class Window:
    """How many items of an iteration may be under way, or done and not consumed.

    Parameters
    ----------
    size : that many.
    """

    def __init__(self, size: int) -> None:
        self._changed = threading.Condition()
        self._size = size
        self._end: float = size
        self._consumed = 0
        self.is_over = False

    def end(self) -> float:
        """The first item that may not be sent yet."""
        return self._end

    def consume(self) -> bool:
        """The consumer has taken an item. Whether the window has moved."""
        self._consumed += 1
        if self._consumed + self._size - self._end < self._size // 4:
            return False
        self._move(self._consumed + self._size)
        return True

    def lift(self) -> None:
        """The pool takes no more calls: everything may be read, since the consumer may wait for the end first."""
        self._move(float("inf"))

    def finish(self) -> None:
        """Nobody wants more."""
        self.is_over = True
        self.lift()

    def wait(self, index: int) -> bool:
        """Wait until the item may be sent; False: it is not wanted any more."""
        with self._changed:
            self._changed.wait_for(lambda: index < self._end)
        return not self.is_over

    def _move(self, end: float) -> None:
        with self._changed:
            self._end = max(end, self._end)
            self._changed.notify_all()


class Windowed(Listed):
    """Items that are all there, to be sent within a window."""

    def __init__(self, items: Sequence[Any], window: Window) -> None:
        super().__init__(items)
        self._window = window

    def reach(self) -> int:
        return int(min(super().reach(), self._window.end()))


class Reader:
    """A thread that reads an iterable: that may take its time, or wait for something that the pool does.

    Parameters
    ----------
    items : where the items go.
    on_item : called after each.
    on_end : called at the end with the number of items, and what the iterator raised, if it did.
    """

    def __init__(
        self,
        source: Iterable[Any],
        items: Fed,
        window: Window,
        on_item: Callable[[], object],
        on_end: Callable[[int, Exception | None], object],
    ) -> None:
        self._source = source
        self._items = items
        self._window = window
        self._on_item = on_item
        self._on_end = on_end

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, name="fibernb-pool-reader", daemon=True).start()

    def _read(self) -> None:
        try:
            for item in self._source:
                self._items.add(item)
                self._on_item()
                if not self._window.wait(self._items.reach()):
                    return
        except Exception as error:  # noqa: BLE001  whatever a user's iterable raises
            self._on_end(self._items.reach(), error)
        else:
            self._on_end(self._items.reach(), None)


def chunks(source: Iterable[Any], size: int) -> Iterator[tuple[Any, ...]]:
    """So many items at a time; what an error of the source interrupts is lost."""
    items = iter(source)
    while chunk := tuple(itertools.islice(items, size)):
        yield chunk
