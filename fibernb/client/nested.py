"""Waiting inside of a task: its seat is lent meanwhile, so that what it waits for can run on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fibernb.core.messages import Blocked, Message, Unblocked
from fibernb.engine import context
from fibernb.errors import TaskUnschedulable
from fibernb.model import ObjectId, TaskId

PATIENCE_S: Final = 0.001  # what comes so soon is not worth lending a seat for


class Lending:
    """The tasks of this process that wait, by any of their threads.

    Parameters
    ----------
    send : sends a message to the hub, now.
    """

    def __init__(self, send: Callable[[Message], object]) -> None:
        self._send = send
        self._waiting: dict[TaskId, int] = {}  # task to how many of its threads or coroutines wait
        self._lock = threading.Lock()

    @property
    def tasks(self) -> list[TaskId]:
        """The tasks whose seats are lent."""
        return list(self._waiting)

    @contextmanager
    def lent(self, task: TaskId) -> Iterator[None]:
        """The seat of this task is lent meanwhile."""
        with self._lock:
            count = self._waiting[task] = self._waiting.get(task, 0) + 1
        try:
            if count == 1:
                self._send(Blocked(task=task))
            yield
        finally:
            with self._lock:
                count = self._waiting[task] - 1
                if count:
                    self._waiting[task] = count
                else:
                    del self._waiting[task]
            if not count:
                self._send(Unblocked(task=task))

    def wait(
        self,
        wait: Callable[[Callable[[], bool], float | None], bool],
        task: TaskId,
        done: Callable[[], bool],
        timeout_s: float | None,
    ) -> bool:
        """As ``wait(done, timeout_s)``, lending the seat of the task that waits, unless it is over at once."""
        if timeout_s is not None and timeout_s <= PATIENCE_S:
            return wait(done, timeout_s)
        if wait(done, PATIENCE_S):
            return True
        with self.lent(task):
            return wait(done, None if timeout_s is None else timeout_s - PATIENCE_S)


def check_turn(actor: ObjectId, parent: TaskId | None, name: str) -> None:
    """Raise `TaskUnschedulable` if the code that runs here may not wait for this call: it could never begin.

    That is so where an actor that runs its calls one by one waits, in one of them, for another that it has submitted
    meanwhile.

    Parameters
    ----------
    actor : whose call it is.
    parent : the task that has submitted it.
    name : of the call, for people.
    """
    engine = context.current()
    if engine is None or not engine.one_by_one or engine.actor != actor or engine.task != parent:
        return
    if threading.current_thread() is threading.main_thread():
        raise TaskUnschedulable(
            f"{engine.task_name or 'this call'} would wait for ever: it waits for {name} of its own actor, which runs "
            "one call at a time, so that one cannot begin before this one ends. Call the method itself "
            "(self.method()), return the reference, or give the actor max_concurrency=2"
        )
