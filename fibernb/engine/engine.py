"""One engine: the main thread's loop, from the socket straight to the call."""

from __future__ import annotations

import gc
import os
import time
from typing import Final

from fibernb.core.messages import Run
from fibernb.engine.control import REFUSED_EXIT_CODE, Control
from fibernb.engine.interrupts import Interrupts, Leave
from fibernb.engine.ledger import Ledger, Verdict
from fibernb.engine.post import Post
from fibernb.engine.reporter import Reporter
from fibernb.engine.runner import Batch, Runner, stopped
from fibernb.engine.streams import LogFile, NativeOutput
from fibernb.errors import NotConnected
from fibernb.model import Call, TaskId
from fibernb.transport import Link
from fibernb.wire import codec
from fibernb.wire.handshake import Refused, Seat

SEND_EVERY_S: Final = 0.005  # results wait no longer than this for those of the next calls
NATIVE_AFTER_S: Final = 0.0005  # after a call of that length, look whether it wrote to descriptor 1 or 2


class Engine:
    """Receives calls, runs them in the main thread, sends what comes of them.

    It is made in the node process, so that what it consists of is shared; the fork then runs it on a seat.
    """

    def __init__(self, *, address: str, key: str) -> None:
        self.ledger = Ledger()
        self.reporter = Reporter(lambda: self.ledger.current, self._on_news)
        self.interrupts = Interrupts()
        self.native = NativeOutput()
        self.log = LogFile()
        self._runner = Runner(self.interrupts)
        self._post = Post(address, key, self.ledger, self._on_break)
        self._control = Control(self._post, self.ledger, self.interrupts, self._tick, lambda: self.reporter.has_news)
        self._has_worked = False
        self._send_at = 0.0
        self._last_task: TaskId = 0
        self._disowned = False

    def run(self, seat: Seat) -> int:
        """Serve until the hub says to leave. Returns the exit code of the process."""
        self._post.seat = seat
        self.reporter.rank = seat.rank
        self._control.start()
        try:
            while True:
                messages, generation = self._receive()
                if any(isinstance(message, Refused) for message in messages):
                    return REFUSED_EXIT_CODE
                runs = [message for message in messages if isinstance(message, Run)]
                if runs and self.ledger.accept(runs, generation):
                    self._work(runs)
        except Leave:
            self._flush(self._last_task)
            self._post.close()
            return 0

    def disown(self) -> None:
        """In a process that a task has forked: leave all to the engine. The process ends when the task would."""
        self.reporter.is_ours = False
        self._disowned = True
        self._post.disown()

    # ---- receiving ---------------------------------------------------------------------------------------

    def _receive(self) -> tuple[list[object], int]:
        self.interrupts.waiting = True
        if self.interrupts.leaving:
            raise Leave
        link, generation = self._post.link()
        messages = self._receive_from(link)
        self.interrupts.waiting = False
        return messages, generation

    def _receive_from(self, link: Link) -> list[object]:
        try:
            return [codec.to_engine.decode(data) for data in link.receive()]
        except NotConnected:
            self._post.broken(link)
            return []

    # ---- working -----------------------------------------------------------------------------------------

    def _work(self, runs: list[Run]) -> None:
        self._read_native(0)
        self._control.begin_work()
        if not self._has_worked:
            self._has_worked = True
            gc.enable()  # not before: what has never run anything shares more memory with the others
        for run in runs:
            if run.forget:
                self._post.forget(run.forget)
            batch = self._runner.prepare(run)
            now = time.perf_counter()
            for position, call in enumerate(run.calls, run.position):
                now = self._work_on(batch, position, call, now)
        self._flush(self._last_task)
        self._control.end_work()

    def _work_on(self, batch: Batch, position: int, call: Call, began_at: float) -> float:
        """One call, if it is still wanted. Returns the time when it ended."""
        verdict = self.ledger.begin(position, call.id)
        if verdict is Verdict.SKIP:
            return began_at
        if verdict is Verdict.STOP:
            self.ledger.end(stopped(call.id), 0.0)
            return began_at
        result = self._runner.run(batch, call)
        if self._disowned:
            os._exit(0)
        now = time.perf_counter()
        self._last_task = call.id
        if now - began_at > NATIVE_AFTER_S:
            self._read_native(call.id)
            self.reporter.close_bars(call.id)
        self.ledger.end(result, now - began_at)
        if now > self._send_at:
            self._flush(call.id)
            self._send_at = now + SEND_EVERY_S
        return now

    # ---- sending -----------------------------------------------------------------------------------------

    def _tick(self) -> bool:
        """Called by the control thread now and then while something runs."""
        self.log.flush()
        return self._flush(self.ledger.current)

    def _flush(self, task: TaskId) -> bool:
        """Send what was said, then results; what went to the descriptors counts as said by that task."""
        self._read_native(task)
        return self._post.send_news(self.reporter)

    def _read_native(self, task: TaskId) -> None:
        text = self.native.read()
        if text:
            self.reporter.write("stdout", text, task)

    def _on_break(self) -> None:
        self._control.rouse()

    def _on_news(self, at_once: bool) -> None:
        if at_once:
            with self.interrupts.shield():
                self._post.send_news(self.reporter)
        else:
            self._control.hasten()
