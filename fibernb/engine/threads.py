"""Calls of an actor that runs in several threads at a time."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from fibernb.engine.actors import ActorExit
from fibernb.engine.batches import Batch, stopped
from fibernb.engine.context import name_of_call
from fibernb.engine.keeping import keep_error
from fibernb.engine.ledger import Verdict
from fibernb.engine.reporter import owner
from fibernb.engine.siding import Saver, Siding, crash
from fibernb.model import Call, Result, TaskId

SEND_EVERY_S: Final = 0.005  # results wait no longer than this for those of the next calls

Job: TypeAlias = tuple[Batch, Call]

_raise_in_thread: Final = ctypes.pythonapi.PyThreadState_SetAsyncExc


class _Lane:
    """A concurrency group: so many threads, started when they are needed, that take calls in order."""

    def __init__(self, limit: int) -> None:
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.limit = max(1, limit)
        self.threads = 0
        self.idle = 0  # threads that wait for a job, less the jobs that wait for a thread


class _Running(NamedTuple):
    task: TaskId
    struck: list[bool]


class Threads:
    """Hands calls to threads, by their group.

    Parameters
    ----------
    siding : the engine.
    saver : keeps checkpoints of the actor.
    limits : threads of each group; that of the empty name is for calls without one.
    """

    def __init__(self, siding: Siding, saver: Saver, limits: Mapping[str, int]) -> None:
        self._siding = siding
        self._saver = saver
        self._lanes = {group: _Lane(limit) for group, limit in limits.items()}
        self._lock = threading.Lock()
        self._saving = threading.Lock()
        self._running: dict[int, _Running] = {}  # by thread
        self._send_at = 0.0

    def start(self, batch: Batch, call: Call) -> None:
        """Have a call run as soon as a thread of its group is free. In the main thread only."""
        lane = self._lanes.get(batch.group) or self._lanes[""]
        lane.jobs.put((batch, call))
        with self._lock:
            lane.idle -= 1
            needs_thread = lane.idle < 0 and lane.threads < lane.limit
            if needs_thread:
                lane.threads += 1
                lane.idle += 1
        if needs_thread:
            name = f"fibernb-call-{batch.group or 'actor'}-{lane.threads}"
            threading.Thread(target=self._serve, args=(lane,), daemon=True, name=name).start()

    def interrupt(self, task: TaskId) -> None:
        """Raise KeyboardInterrupt in the thread that runs a call; it notices when it runs Python code."""
        with self._lock:
            for thread, running in self._running.items():
                if running.task == task and not running.struck[0]:
                    running.struck[0] = True
                    _raise_in_thread(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))

    # ---- in the threads ------------------------------------------------------------------------------------

    def _serve(self, lane: _Lane) -> None:
        try:
            while True:
                self._work_on(*lane.jobs.get())
                self._send(lane.jobs.empty())
                with self._lock:
                    lane.idle += 1
        except BaseException:  # noqa: BLE001  not of a call
            crash()

    def _send(self, at_once: bool) -> None:
        """At once if no call waits, else together with the results of the next ones."""
        if at_once or self._siding.now() > self._send_at:
            self._siding.flush()
            self._send_at = self._siding.now() + SEND_EVERY_S
        else:
            self._siding.flush_soon()

    def _work_on(self, batch: Batch, call: Call) -> None:
        began_s = self._siding.now()
        owner.set(call.id)
        name_of_call.set(batch.name)
        running = _Running(call.id, [False])
        try:
            result = self._result(batch, call, running)
        except ActorExit as exit_:
            self._siding.leave(exit_.reason)
            return
        except BaseException as error:  # noqa: BLE001  whatever a call raises is its own
            self._leave_safely()
            keep_error(call.id, batch.name, error)
            result = batch.failure(call.id, error, isinstance(error, KeyboardInterrupt) and running.struck[0])
        if self._saver.saves:
            with self._saving:
                self._saver.save()
        self._siding.end(batch, call, result, began_s)

    def _result(self, batch: Batch, call: Call, running: _Running) -> Result:
        try:
            self._enter(running)
            if self._siding.ledger.begin_beside(call.id) is Verdict.STOP:
                return stopped(call.id)
            args, kwargs = batch.arguments(call)
            value = batch.function(*args, **kwargs)
            if batch.is_streaming:
                return self._siding.streams.run(batch, call.id, value)
            return batch.result(call.id, value)
        finally:
            self._leave_safely()

    def _enter(self, running: _Running) -> None:
        with self._lock:
            self._running[threading.get_ident()] = running

    def _leave_safely(self) -> None:
        """From here on nothing is raised in this thread from outside; what was on its way is taken back."""
        while True:
            try:
                self._leave()
            except KeyboardInterrupt:
                continue
            return

    def _leave(self) -> None:
        thread = threading.get_ident()
        with self._lock:
            running = self._running.pop(thread, None)
            if running is not None and running.struck[0]:
                _raise_in_thread(ctypes.c_ulong(thread), None)
