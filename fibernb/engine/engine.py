"""One engine: the main thread's loop, from the socket straight to the call."""

from __future__ import annotations

import gc
import os
import threading
import time
from typing import Final

from fibernb.core.messages import ActorExits, ActorRecord, OpenDoor, ProcessExits, Run
from fibernb.engine.actors import ActorExit, ProcessExit
from fibernb.engine.batches import Batch, Store, stopped
from fibernb.engine.context import EngineContext
from fibernb.engine.control import REFUSED_EXIT_CODE, Control
from fibernb.engine.coroutines import Coroutines, LoopReader
from fibernb.engine.direct import DirectCalls
from fibernb.engine.door import Door, Knock
from fibernb.engine.interrupts import Interrupts, Leave
from fibernb.engine.ledger import Ledger, Verdict
from fibernb.engine.post import Post
from fibernb.engine.reporter import Reporter, owner
from fibernb.engine.residence import Residence
from fibernb.engine.runner import Runner
from fibernb.engine.streaming import Streams
from fibernb.engine.streams import LogFile, NativeOutput
from fibernb.engine.surroundings import Surroundings
from fibernb.errors import NotConnected
from fibernb.model import Call, Result, TaskId, client_of
from fibernb.transport import Link
from fibernb.wire import codec
from fibernb.wire.handshake import Refused, Seat

SEND_EVERY_S: Final = 0.005  # results wait no longer than this for those of the next calls
ITEMS_EVERY_S: Final = 0.001  # as long do items of a stream wait for the next ones
NATIVE_AFTER_S: Final = 0.0005  # after a call of that length, look whether it wrote to descriptor 1 or 2


class Engine:
    """Receives calls, runs them in the main thread, sends what comes of them.

    It is made in the node process, so that what it consists of is shared; the fork then runs it on a seat.
    """

    def __init__(self, *, address: str, key: str) -> None:
        self.ledger = Ledger()
        self.reporter = Reporter(self.current_task, self._on_news)
        self.interrupts = Interrupts()
        self.native = NativeOutput()
        self.log = LogFile()
        self.surroundings = Surroundings()
        self.streams = Streams(self._send_item)
        self._runner = Runner(self.interrupts, self.streams)
        self._post = Post(address, key, self.ledger, self._on_break, self.surroundings.send_calls)
        self._control = Control(self._post, self.ledger, self.interrupts, self)
        self._residence = Residence(self._runner, self._post, self)
        self._direct = DirectCalls(self.ledger, self.reporter, self.surroundings, self._work_directly)
        self._reader: LoopReader | None = None  # of an asyncio actor
        self._has_worked = False
        self._send_at = self._send_items_at = 0.0
        self._last_task: TaskId = 0
        self._disowned = self._refused = False

    def run(self, seat: Seat, store: Store | None = None) -> int:
        """Serve until the hub says to leave. Returns the exit code of the process."""
        self._post.seat = seat
        self._runner.store = store
        self.reporter.rank = seat.rank
        self._control.start()
        try:
            while True:
                data, generation = self._receive()
                self._take(data, generation)
                if isinstance(self._residence.crew, Coroutines):
                    self._run_loop(self._residence.crew)
        except Leave:
            self._direct.shut()
            self._residence.end()
            self._flush(self._last_task)
            self._post.close()
            return REFUSED_EXIT_CODE if self._refused else 0
        except ProcessExit as exit_:
            self._take_leave()
            return exit_.code

    def current_task(self) -> TaskId:
        """The task that the calling code belongs to, 0 for none."""
        return self.ledger.current or owner.get()

    def enter(self, context: EngineContext) -> None:
        """What runs here can ask this context where it is."""
        self.surroundings.context = context

    def disown(self) -> None:
        """In a process that a task has forked: leave all to the engine. The process ends when the task would."""
        self.reporter.is_ours = False
        self._disowned = True
        self._post.disown()
        if self._direct.door is not None:
            self._direct.door.cover()

    # ---- receiving ---------------------------------------------------------------------------------------

    def _receive(self) -> tuple[list[bytes], int]:
        self.interrupts.waiting = True
        if self.interrupts.leaving:
            raise Leave
        link, generation = self._post.link()
        data = self._receive_from(link)
        self.interrupts.waiting = False
        return data, generation

    def _receive_from(self, link: Link) -> list[bytes]:
        try:
            if self._direct.door is None:
                return link.receive()
            return self._direct.await_link(link, self._serve_meanwhile)
        except NotConnected:
            self._post.broken(link)
            return []

    def _take(self, data: list[bytes], generation: int) -> None:
        runs: list[Run] = []
        for part in data:
            message = codec.to_engine.decode(part)
            if isinstance(message, Run):
                runs.append(message)
            elif isinstance(message, OpenDoor):
                self._open_door()
            elif isinstance(message, Refused):
                self._refused = True
                self.interrupts.leave()
        if runs:
            self._direct.listen(all_of_it=True)
            if self.ledger.accept(runs, generation) and not self._residence.is_left:
                self._work(runs)
            if not self._residence.is_taken:
                self._direct.shut()
            elif self._reader is not None and self._direct.waits:
                self._reader.call_soon(self._serve_in_loop)

    def _run_loop(self, coroutines: Coroutines) -> None:
        """The rest of the life of an engine with an asyncio actor."""
        self.interrupts.on_leave = coroutines.stop
        self._reader = reader = LoopReader(coroutines.loop, self._post, self._take)
        coroutines.loop.call_soon(reader.start)
        if not self.interrupts.leaving:
            coroutines.loop.run_forever()
        reader.stop()
        if self._direct.door is not None:
            coroutines.loop.remove_reader(self._direct.door.fileno())
        self.interrupts.on_leave = None
        if reader.failure is not None:
            raise reader.failure
        raise Leave

    def _open_door(self) -> None:
        context = self.surroundings.context
        if context is None or self._residence.is_left:
            return
        self._direct.open(lambda: Door(context.directory, self._post.seat.engine, self._post.key))
        door, crew = self._direct.door, self._residence.crew
        if isinstance(crew, Coroutines) and door is not None:
            crew.loop.add_reader(door.fileno(), self._serve_in_loop)

    def _serve_in_loop(self) -> None:
        self._direct.listen()
        while self._reader is not None and self._reader.read():
            continue  # what had been sent before goes first
        self._serve()

    # ---- working -----------------------------------------------------------------------------------------

    def _begin_work(self) -> None:
        self._control.begin_work()
        if not self._has_worked:
            self._has_worked = True
            gc.enable()  # not before: what has never run anything shares more memory with the others
            self._runner.broken = self.surroundings.set_up(self._post.seat.environment)

    def _work(self, runs: list[Run]) -> None:
        self._read_native(0)
        self._begin_work()
        try:
            for run in runs:
                if run.forget:
                    self._post.forget(run.forget)
                if self._direct.waits:
                    self._direct.serve(client_of(run.calls[0].id))
                if not self._residence.is_left:
                    self._work_on_all(run)
        except ActorExit as exit_:
            self.leave(exit_.reason)
        self._flush(self._last_task)
        self._control.end_work()

    def _work_on_all(self, run: Run) -> None:
        if run.actor is not None:
            self._make_actor(run, run.actor)
            return
        crew = self._residence.crew
        self.surroundings.suit(run)
        batch = self._runner.prepare(run)
        if crew is None:
            now = time.monotonic()
            for position, call in enumerate(run.calls, run.position):
                now = self._work_on(batch, position, call, now)
            return
        for position, call in enumerate(run.calls, run.position):
            if self.ledger.take_known(position, call.id):
                continue
            if self.ledger.hand_out(position, call.id):
                crew.start(batch, call)

    # ---- calls that clients send themselves ------------------------------------------------------------------

    def _serve_meanwhile(self) -> None:
        """As `_serve`, while the hub sends nothing."""
        self.interrupts.waiting = False
        self._serve()
        self.interrupts.waiting = True
        if self.interrupts.leaving:
            raise Leave

    def _serve(self) -> None:
        """Run the calls that wait at the door."""
        if self._direct.waits:
            self._begin_work()
            self._direct.serve()
            self._control.end_work()

    def _work_directly(self, knock: Knock) -> None:
        (call,) = knock.run.calls
        if self._residence.is_left:
            self._direct.give_up(call)
            return
        try:
            self.surroundings.suit(knock.run)
            batch = self._runner.prepare(knock.run)
            crew = self._residence.crew
            if crew is not None:
                self.ledger.hand_out_direct(call.id)
                crew.start(batch, call)
            else:
                self._run_directly(batch, call)
        except ActorExit as exit_:
            self.leave(exit_.reason)
            self._direct.give_up(call)

    def _run_directly(self, batch: Batch, call: Call) -> None:
        began_at = time.monotonic()
        if self.ledger.begin_direct(call.id) is Verdict.STOP:
            result = stopped(call.id)
        else:
            result = self._runner.run(batch, call)
        self._end_directly(batch, call, result, began_at)

    def _end_directly(self, batch: Batch, call: Call, result: Result, began_at: float) -> None:
        if self._disowned:
            os._exit(0)
        self._last_task = call.id
        self._read_native(call.id)
        if self.reporter.has_news:
            self.reporter.close_bars(call.id)
        if self._residence.saves and self._residence.crew is None:
            self._residence.save()
        if not self._direct.end(batch, call, result, began_at):
            self._settle(batch, call, result)
            self._flush(call.id)

    def _work_on(self, batch: Batch, position: int, call: Call, began_at: float) -> float:
        """One call, if it is still wanted. Returns the time when it ended."""
        if self.ledger.answers and self.ledger.take_known(position, call.id):
            return began_at
        verdict = self.ledger.begin(position, call.id)
        if verdict is Verdict.SKIP:
            return began_at
        if verdict is Verdict.STOP:
            self.ledger.end(stopped(call.id), began_at, 0.0)
            return began_at
        result = self._runner.run(batch, call)
        if self._disowned:
            os._exit(0)
        now = time.monotonic()
        self._last_task = call.id
        if now - began_at > NATIVE_AFTER_S:
            self._read_native(call.id)
            self.reporter.close_bars(call.id)
        if call.refs or batch.borrows or result.refs or result.more:
            self._settle(batch, call, result)
        if self._residence.saves:
            self._residence.save()
        self.ledger.end(result, began_at, now - began_at)
        if now > self._send_at:
            self._flush(call.id)
            self._send_at = now + SEND_EVERY_S
        return now

    def _make_actor(self, run: Run, record: ActorRecord) -> None:
        (call,) = run.calls
        began_at = time.monotonic()
        if self.ledger.begin(run.position, call.id) is not Verdict.RUN:
            self.ledger.end(stopped(call.id), began_at, 0.0)
            return
        self.surroundings.house(record, run.gpus)
        if record.create.options.is_process:
            self.interrupts.open()
        batch, result = self._residence.make(run, record, call)
        self._settle(batch, call, result)
        self.ledger.end(result, began_at, time.monotonic() - began_at)

    def _settle(self, batch: Batch, call: Call, result: Result) -> None:
        """The hub has to know of references that leave with a result, or stay behind, before it hears the result."""
        if call.refs or batch.borrows or result.refs or any(part.refs for part in result.more):
            self.surroundings.settle()

    # ---- calls beside this loop: see `fibernb.engine.siding` -------------------------------------------------

    def now(self) -> float:
        return time.monotonic()

    def end(self, batch: Batch, call: Call, result: Result, began_s: float) -> None:
        if self._direct.owns(call.id):
            self._end_directly(batch, call, result, began_s)
            return
        if self._disowned:
            os._exit(0)
        self._settle(batch, call, result)
        self._last_task = call.id
        self.reporter.close_bars(call.id)
        self.ledger.end_beside(result, began_s, time.monotonic() - began_s)

    def flush(self) -> None:
        self._flush(self._last_task)

    def flush_soon(self) -> None:
        self._control.hurry()

    def leave(self, reason: str) -> None:
        self._residence.is_left = self.ledger.is_over = True
        self._flush(self._last_task)
        self._post.exits(ActorExits(reason=reason))

    def _take_leave(self) -> None:
        """Wait for a word of the hub before an end that it must hear of: one that is just being killed gives none, and
        the next one does.
        """
        told = threading.Event()
        self.interrupts.on_leave = told.set
        self._flush(self.ledger.current)
        self._post.exits(ProcessExits())
        told.wait()

    # ---- for the control thread ------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        return self.reporter.has_news or self._direct.has_news

    def tick(self) -> bool:
        self.log.flush()
        ran = self._direct.report()
        if ran is not None:
            self._post.send(ran)
        return self._flush(self.ledger.current) or ran is not None

    def interrupt(self, task: TaskId) -> None:
        crew = self._residence.crew
        if crew is None or task == self.ledger.current:
            self.interrupts.interrupt(task)
        else:
            crew.interrupt(task)

    def consume(self, task: TaskId, items: int) -> None:
        self.streams.consume(task, items)

    # ---- sending -----------------------------------------------------------------------------------------

    def _send_item(self, item: Result) -> None:
        """Items leave at once when they are rare, together when they are not."""
        with self.interrupts.shield():
            if item.refs:
                self.surroundings.settle()
            self.ledger.add(item)
            now = time.monotonic()
            if now < self._send_items_at:
                self._control.hurry()
                return
            self._send_items_at = now + ITEMS_EVERY_S
            self._flush(self.current_task())

    def _flush(self, task: TaskId) -> bool:
        """Send what was said, then results; what went to the descriptors counts as said by that task."""
        self._read_native(task)
        if not (self.ledger.has_results or self.reporter.has_news):
            return False
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
