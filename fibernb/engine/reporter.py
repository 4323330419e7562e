"""Collects what tasks say (text, rich displays, bars) until it is sent."""

from __future__ import annotations

import contextvars
import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from fibernb.core.messages import Display, Output, Progress, Said
from fibernb.model import Bar, Rank, TaskId
from fibernb.progress import LiveBar

MAX_TASKS: Final = 1000  # whose messages are still counted after they have ended
FULL_CHARACTERS: Final = 65_536  # of text that waits: then the writer sends it itself
MAX_TURNS: Final = 64  # of tasks and streams that wait: with more, what goes to one stream is put together

owner: Final[contextvars.ContextVar[TaskId]] = contextvars.ContextVar("owner", default=0)
"""The cell on whose behalf a coroutine runs, which may be another one than runs now. 0: the current task's."""


class _Text(NamedTuple):
    task: TaskId
    stream: str
    parts: list[str]


class _Rich(NamedTuple):
    task: TaskId
    kind: str
    content: bytes


class _ReportedBar:
    __slots__ = ("bar", "last", "number", "task")

    def __init__(self, task: TaskId, number: int, bar: LiveBar) -> None:
        self.task = task
        self.number = number
        self.bar = bar
        self.last: tuple[object, ...] = ()


class Reporter:
    """What the tasks of one engine have said and nobody has been told yet.

    Parameters
    ----------
    current_task : tells the task that runs now, 0 for none.
    on_news : called when there is something to send; ``True`` when it should be sent at once.
    """

    def __init__(self, current_task: Callable[[], TaskId], on_news: Callable[[bool], object]) -> None:
        self.rank: Rank = 0
        self.is_ours = True  # false in processes that tasks fork
        self._current_task = current_task
        self._on_news = on_news
        self._lock = threading.RLock()  # a signal handler, or a finaliser, may print
        self._pending: list[_Text | _Rich] = []
        self._open: dict[tuple[TaskId, str], _Text] = {}  # the last text of each since the last display
        self._characters = 0
        self._bars: list[_ReportedBar] = []
        self._bar_numbers = itertools.count(1)
        self._sequences: OrderedDict[TaskId, int] = OrderedDict()
        self._thread_owners: weakref.WeakKeyDictionary[threading.Thread, TaskId] = weakref.WeakKeyDictionary()

    # ---- saying ------------------------------------------------------------------------------------------

    def write(self, stream: str, text: str, task: TaskId | None = None) -> None:
        """Text that a task wrote (default: the one that the calling code belongs to)."""
        task = self._owner() if task is None else task
        with self._lock:
            last = self._open.get((task, stream))
            if last is not None and (last is self._pending[-1] or len(self._pending) >= MAX_TURNS):
                last.parts.append(text)
            else:
                self._open[task, stream] = new = _Text(task, stream, [text])
                self._pending.append(new)
            self._characters += len(text)
        self._on_news(self._characters >= FULL_CHARACTERS)

    def display(self, kind: str, content: dict[str, Any]) -> None:
        """A rich display of the calling code; ``kind`` as in `fibernb.core.messages.Display`."""
        encoded = msgspec.json.encode(content, enc_hook=str)
        with self._lock:
            self._pending.append(_Rich(self._owner(), kind, encoded))
            self._open.clear()
        self._on_news(len(encoded) >= FULL_CHARACTERS)

    def add_bar(self, bar: LiveBar) -> None:
        """A bar of the calling code, looked at until it is closed or its task has ended."""
        with self._lock:
            self._bars.append(_ReportedBar(self._owner(), next(self._bar_numbers), bar))
        self._on_news(False)

    def close_bars(self, task: TaskId) -> None:
        """The task has ended: its bars will not move any more."""
        if self._bars:
            with self._lock:
                for reported in self._bars:
                    if reported.task == task:
                        reported.bar.closed = True

    # ---- who says it -------------------------------------------------------------------------------------

    def adopt_thread(self, thread: threading.Thread) -> None:
        """What this thread says belongs to the task that starts it."""
        self._thread_owners[thread] = self._owner()

    def _owner(self) -> TaskId:
        return owner.get() or self._thread_owners.get(threading.current_thread()) or self._current_task()

    # ---- sending -----------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether `take` may have something."""
        return bool(self._pending or self._bars)

    def has_said(self, task: TaskId) -> bool:
        """Whether messages of this task have been taken, of late."""
        return task in self._sequences

    def take(self) -> list[Said]:
        """Everything that has not been taken yet, in order, as messages."""
        with self._lock:
            pending, self._pending, self._characters = self._pending, [], 0
            self._open.clear()
            return [*map(self._message, pending), *self._moved_bars()]

    def _message(self, item: _Text | _Rich) -> Said:
        sequence = self._next_sequence(item.task)
        if isinstance(item, _Text):
            text = "".join(item.parts)
            return Output(task=item.task, rank=self.rank, sequence=sequence, stream=item.stream, text=_clean(text))
        return Display(task=item.task, rank=self.rank, sequence=sequence, kind=item.kind, content=item.content)

    def _next_sequence(self, task: TaskId) -> int:
        sequence = self._sequences.pop(task, 0)
        self._sequences[task] = sequence + 1
        if len(self._sequences) > MAX_TASKS:
            self._sequences.popitem(last=False)
        return sequence

    def _moved_bars(self) -> list[Progress]:
        moved: dict[TaskId, list[Bar]] = {}
        for reported in self._bars:
            bar = reported.bar
            state = (bar.description, bar.done, bar.total, bar.closed)
            if state != reported.last:
                reported.last = state
                moved.setdefault(reported.task, []).append(_snapshot(reported.number, bar))
        self._bars = [reported for reported in self._bars if not reported.last[-1]]
        return [
            Progress(task=task, rank=self.rank, sequence=self._next_sequence(task), bars=bars)
            for task, bars in moved.items()
        ]


def _snapshot(number: int, bar: LiveBar) -> Bar:
    return Bar(
        bar=number,
        description=bar.description,
        done=bar.done,
        total=bar.total,
        unit=bar.unit,
        elapsed_s=bar.elapsed_s,
        closed=bar.closed,
    )


def _clean(text: str) -> str:
    """Without lone surrogates, which no message can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
