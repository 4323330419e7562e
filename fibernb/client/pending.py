"""How many calls of an actor this process has under way, when its class sets a limit."""

from __future__ import annotations

import threading
import weakref
from typing import Final

from fibernb.client.refs import ObjectRef
from fibernb.client.streams import ObjectRefGenerator
from fibernb.errors import TooManyCalls

_counts: Final[weakref.WeakValueDictionary[int, PendingCalls]] = weakref.WeakValueDictionary()


class PendingCalls:
    """The unfinished calls of one actor; all its handles in this process share one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._mutex = threading.Lock()

    @classmethod
    def of(cls, actor: ObjectRef, limit: int) -> PendingCalls | None:
        """That of an actor; None when there is no limit."""
        return _counts.setdefault(actor.id, cls(limit)) if limit else None

    def check(self, name: str) -> None:
        """Raise `TooManyCalls` when no further call is allowed."""
        if self._count >= self._limit:
            raise TooManyCalls(
                f"{name}: {self._count} calls are unfinished, and max_pending_calls is {self._limit}: "
                "get some of their values first"
            )

    def note(self, refs: list[ObjectRef] | ObjectRefGenerator) -> None:
        """A call has been submitted; one reference tells when it is done. Calls without values do not count."""
        last = refs[0] if isinstance(refs, list) and refs else None
        if isinstance(refs, ObjectRefGenerator):
            last = refs.completed()
        if last is not None:
            self._add(1)
            last.add_done_callback(lambda _: self._add(-1))

    def _add(self, change: int) -> None:
        with self._mutex:
            self._count += change
