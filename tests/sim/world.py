"""A world in virtual time: clients, hub, node and engines that drop, delay, die and come back, all from one seed.

Everything that takes time is an event in one heap. Each pair of parties has links of their own with delays of their
own, so messages of different links overtake each other, while those of one link stay in order. The hub may be killed,
and started again with nothing but what its node and its clients tell it.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from fibernb.core.commands import (
    Command,
    DropClient,
    FreeBlocks,
    KeepBlocks,
    KillEngine,
    RetainBlocks,
    ShutDown,
    StartEngine,
    TellClient,
    TellEngine,
)
from fibernb.core.events import (
    ClientAttached,
    ClientGone,
    EngineAttached,
    EngineExited,
    EngineUnreachable,
    LiveEngine,
    NodeUp,
    RecoverFrom,
    StartFailed,
)
from fibernb.core.messages import (
    Acknowledge,
    ActorRecord,
    Blocked,
    CallActor,
    Cancel,
    ClientMessage,
    CreateActor,
    DefineFunction,
    Deliver,
    Done,
    EndActor,
    Exit,
    Forget,
    Goodbye,
    Interrupt,
    KillActor,
    Message,
    PutObjects,
    Recall,
    Recalled,
    Recovered,
    Release,
    Run,
    Scale,
    Started,
    Submit,
    SubmitPinned,
    Unblocked,
)
from fibernb.core.scheduler import Event, Scheduler
from fibernb.core.settings import CoreSettings
from fibernb.model import (
    ActorOptions,
    Call,
    ClientId,
    EngineId,
    ObjectId,
    Outcome,
    Rank,
    Resources,
    Result,
    TaskId,
    TaskOptions,
    client_of,
    first_id,
)
from tests.core.bench import PlainErrors
from tests.core.invariants import check

FLUSH_S = 0.005  # an engine sends what it has finished at least this often


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What happens in a world, and how often. Rates are per second of virtual time."""

    seats: int = 4
    tasks: int = 200
    clients: int = 2
    duration_s: float = 20.0  # when trouble ends
    engine_deaths: float = 0.0
    start_failures: float = 0.0  # share of starts
    client_breaks: float = 0.0
    engine_breaks: float = 0.0
    hub_deaths: float = 0.0
    cancels: float = 0.0
    rescales: float = 0.0
    actors: int = 0  # that each client makes
    kills: float = 0.0  # of actors
    nesting: int = 0  # how deep tasks wait for tasks of their own
    delay_s: float = 0.002
    run_s: tuple[float, ...] = (1e-5, 1e-3, 0.02, 0.3)
    chains: bool = True  # some tasks depend on others
    check: bool = True  # the board after every drain


class World:
    """The heap of events, and everyone in it."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.random = random.Random(seed)
        self.plan = plan
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self.finished: dict[TaskId, EngineId] = {}  # whose run has ended on an engine that keeps the result
        self.died: set[EngineId] = set()  # engines that ended otherwise than by leaving in order
        self.runs = 0
        self.node = SimNode(self)
        self.hub: Hub | None = None
        self.clients = [SimClient(self, number + 1) for number in range(plan.clients)]
        self.start_hub()

    def client_of(self, id_: TaskId) -> SimClient:
        return self.clients[client_of(id_) - 1]

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (self.now + delay_s, self._serial, action))

    def delay(self) -> float:
        return self.random.expovariate(1.0 / self.plan.delay_s) if self.plan.delay_s else 0.0

    def run(self, until: Callable[[], bool], limit_s: float = 1e5) -> None:
        """Let time pass until a condition holds."""
        while not until():
            assert self._heap, "nothing will ever happen again"
            self.now, _, action = heapq.heappop(self._heap)
            assert self.now < limit_s, "it takes too long"
            action()

    def run_to(self, when: float) -> None:
        """Let time pass."""
        while self._heap and self._heap[0][0] <= when:
            self.now, _, action = heapq.heappop(self._heap)
            action()
        self.now = when

    def start_hub(self) -> None:
        self.hub = Hub(self)
        live = self.node.live()
        if self.node.known:
            self.hub.handle(RecoverFrom(node="node", engines=live))
        self.hub.handle(NodeUp(node="node"))
        self.node.known = True
        for client in self.clients:
            client.redial()
        for engine in list(self.node.engines.values()):
            engine.redial()

    def kill_hub(self) -> None:
        """The hub dies; everybody's links break; after a while it is started again."""
        if self.hub is None:
            return
        self.hub.dead = True
        self.hub = None
        self._lose_results()
        for client in self.clients:
            client.link_broke()
        for engine in self.node.engines.values():
            engine.link_broke()
        self.after(self.random.uniform(0.01, 2.0), self.start_hub)

    def _lose_results(self) -> None:
        """The hub was the last to have the results of engines that had died, unless their clients have them by now.

        Engines that left in order are another matter: they must not leave before their results have arrived.
        """
        answered = {id_ for client in self.clients for id_ in client.answers}
        for id_, engine in list(self.finished.items()):
            if engine in self.died and id_ not in answered:
                del self.finished[id_]

    def trouble(self, rate: float, action: Callable[[], None]) -> None:
        """Do something at random times, until the plan's end."""
        if not rate:
            return

        def strike() -> None:
            if self.now < self.plan.duration_s:
                action()
                self.after(self.random.expovariate(rate), strike)

        self.after(self.random.expovariate(rate), strike)


class Pipe:
    """One direction of a link: in order, with delays, and cut at once when the link breaks."""

    def __init__(self, world: World, deliver: Callable[[Message], None]) -> None:
        self._world = world
        self._deliver = deliver
        self._last = 0.0
        self.cut = False

    def send(self, message: Message) -> None:
        self._last = max(self._last, self._world.now + self._world.delay())
        self._world.after(self._last - self._world.now, lambda: self._arrive(message))

    def drained_in(self) -> float:
        """Seconds until everything that was sent has arrived."""
        return max(0.0, self._last - self._world.now)

    def _arrive(self, message: Message) -> None:
        if not self.cut:
            self._deliver(message)


class Hub:
    """Drives a scheduler as the real hub does: feed, drain once a poll, carry out."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.scheduler = Scheduler(CoreSettings(lease_s=60.0), PlainErrors())
        self.dead = False
        self.stopped = False
        self._drain_at: float | None = None

    def handle(self, event: Event) -> None:
        if not self.dead:
            self.scheduler.handle(event, self.world.now)
            self._drain_soon(self.world.now)

    def from_client(self, client: ClientId, message: ClientMessage) -> None:
        if not self.dead:
            self.scheduler.client_message(client, message, self.world.now)
            self._drain_soon(self.world.now)

    def from_engine(self, engine: EngineId, message: Message) -> None:
        if not self.dead:
            self.scheduler.engine_message(engine, message, self.world.now)  # type: ignore[arg-type]
            self._drain_soon(self.world.now)

    def unreachable(self, engine: SimEngine) -> None:
        """The link of an engine breaks, and its process lives on."""
        engine.link_broke()
        self.handle(EngineUnreachable(engine=engine.id))

    def _drain_soon(self, when: float) -> None:
        if self._drain_at is None or when < self._drain_at:
            self._drain_at = when
            self.world.after(when - self.world.now, lambda: self._drain(when))

    def _drain(self, when: float) -> None:
        if self.dead or self._drain_at != when:
            return
        self._drain_at = None
        for command in self.scheduler.drain(self.world.now):
            self._carry_out(command)
        if self.world.plan.check:
            check(self.scheduler)
        wake = self.scheduler.next_wakeup(self.world.now)
        if wake is not None:
            self._drain_soon(max(wake, self.world.now))

    def _carry_out(self, command: Command) -> None:
        match command:
            case TellClient(client=client, message=message):
                self.world.clients[client - 1].hear_later(message)
            case TellEngine(engine=engine, message=message):
                if engine in self.world.node.engines:
                    self.world.node.engines[engine].hear_later(message)
            case StartEngine(engine=engine, rank=rank):
                self.world.node.start(engine, rank)
            case KillEngine(engine=engine):
                self.world.node.kill(engine)
            case ShutDown():
                self.stopped = True
            case DropClient() | KeepBlocks() | FreeBlocks() | RetainBlocks():
                pass


class SimNode:
    """Forks engines and reaps them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.engines: dict[EngineId, SimEngine] = {}
        self.known = False  # to a hub

    def live(self) -> list[LiveEngine]:
        return [LiveEngine(engine=engine.id, rank=engine.rank, pid=engine.id) for engine in self.engines.values()]

    def start(self, engine: EngineId, rank: Rank) -> None:
        world = self.world
        hub = world.hub
        assert all(other.rank != rank for other in self.engines.values()), "two engines on one seat"
        if hub is not None and world.random.random() < world.plan.start_failures and world.now < world.plan.duration_s:
            world.after(world.delay(), lambda: hub.handle(StartFailed(engines=[engine], reason="fork failed")))
            return
        self.engines[engine] = SimEngine(world, engine, rank)
        self.engines[engine].redial()

    def kill(self, engine: EngineId) -> None:
        self.world.after(self.world.delay(), lambda: self.die(engine, -9))

    def die(self, engine_id: EngineId, exit_code: int) -> None:
        """A process ends. What it had sent arrives before the news of its end."""
        engine = self.engines.pop(engine_id, None)
        if engine is None:
            return
        engine.die()
        if exit_code:
            self.world.died.add(engine_id)
        hub = self.world.hub
        if hub is not None:
            event = EngineExited(engine=engine_id, exit_code=exit_code)
            self.world.after(engine.drained_in() + self.world.delay(), lambda: hub.handle(event))


@dataclass
class Pending:
    position: int
    call: Call
    run_s: float
    options: TaskOptions


class SimEngine:
    """Runs calls one by one; keeps what it has finished until told to forget."""

    def __init__(self, world: World, id_: EngineId, rank: Rank) -> None:
        self.world = world
        self.id = id_
        self.rank = rank
        self.dead = False
        self.line: deque[Pending] = deque()
        self.current: Pending | None = None
        self.received = 0
        self.started = -1
        self.skipped: set[int] = set()
        self.interrupted: set[TaskId] = set()
        self.ready: list[Result] = []
        self.ready_s = 0.0
        self.sequence = 0
        self.kept: deque[Done] = deque()
        self.functions: set[bytes] = set()
        self.actor: ActorRecord | None = None
        self.begun: dict[ClientId, TaskId] = {}  # the last call of each caller
        self._data: Pipe | None = None
        self._out: list[Pipe] = []
        self._in: list[Pipe] = []
        self._epoch = 0

    # ---- links -------------------------------------------------------------------------------------------

    def redial(self) -> None:
        """Attach to the hub that there is, a little later."""
        self._epoch += 1
        epoch = self._epoch
        self.world.after(0.01 + self.world.delay(), lambda: self._attach(epoch))

    def _attach(self, epoch: int) -> None:
        hub = self.world.hub
        if hub is None or self.dead or epoch != self._epoch:
            return
        self.flush(send=False)
        self._data = Pipe(self.world, lambda message: hub.from_engine(self.id, message))
        control = Pipe(self.world, lambda message: hub.from_engine(self.id, message))
        self._out = [self._data, control]
        self._in = [Pipe(self.world, self._hear), Pipe(self.world, self._hear)]
        holds = [self.current.call.id] if self.current is not None else []
        holds += [pending.call.id for pending in self.line if pending.position not in self.skipped]
        hub.handle(
            EngineAttached(
                engine=self.id,
                rank=self.rank,
                pid=self.id,
                received=self.received,
                holds=holds,
                running=self.current is not None,
                redelivers=len(self.kept),
                actor=self.actor,
            )
        )
        for done in self.kept:
            self._data.send(done)

    def link_broke(self) -> None:
        self._epoch += 1
        for pipe in (*self._out, *self._in):
            pipe.cut = True
        self._data, self._out, self._in = None, [], []

    def hear_later(self, message: Message) -> None:
        if self._in:
            self._in[0 if isinstance(message, Run) else 1].send(message)

    def drained_in(self) -> float:
        return max((pipe.drained_in() for pipe in self._out), default=0.0)

    def die(self) -> None:
        """What was finished and cannot reach the hub any more is gone with the process."""
        self.dead = True
        lost = list(self.ready)
        if not self._out:
            lost += [result for done in self.kept for result in done.results]
        for result in lost:
            if self.world.finished.get(result.id) == self.id:
                del self.world.finished[result.id]
        if self.current is not None:
            self.world.client_of(self.current.call.id).go_on(self.current.call.id)
        self.line.clear()

    # ---- messages ----------------------------------------------------------------------------------------

    def _hear(self, message: Message) -> None:
        if self.dead:
            return
        match message:
            case Run():
                self._take(message)
            case Recall(position=position, until=until):
                first = max(position, self.started + 1)
                self.skipped.update(range(first, until))
                self.flush()
                self._out[1].send(Recalled(position=min(first, until), until=until))
            case Interrupt(task=task):
                self._interrupt(task)
            case Forget(forget=sequence):
                self._forget(sequence)
            case Exit():
                assert not self.line
                assert self.current is None
                self.world.node.die(self.id, 0)
            case EndActor():
                assert self.actor is not None
                self.flush()
                self.world.node.die(self.id, 0)

    def _take(self, message: Run) -> None:
        assert message.position == self.received
        self._forget(message.forget)
        if message.code is not None:
            self.functions.add(message.function)
        assert message.function in self.functions, "the code is missing"
        if message.actor is not None:
            assert self.actor is None, "a second actor in one engine"
            self.actor = message.actor
        run_s = float(message.function.decode())
        needed = {object_id for call in message.calls for object_id in call.deps}
        assert needed == {result.id for result in message.inputs}
        assert all(result.outcome is Outcome.OK for result in message.inputs)
        for call in message.calls:
            self.line.append(Pending(self.received, call, run_s, message.options))
            self.received += 1
        self._go_on()

    def _forget(self, sequence: int) -> None:
        while self.kept and self.kept[0].sequence <= sequence:
            self.kept.popleft()

    def _interrupt(self, task: TaskId) -> None:
        self.interrupted.add(task)
        if self.current is not None and self.current.call.id == task and self.world.random.random() < 0.8:
            self._finish(self.current, Outcome.CANCELLED)

    # ---- running -----------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        while self.current is None and self.line:
            pending = self.line.popleft()
            if pending.position in self.skipped:
                self.skipped.discard(pending.position)
                continue
            self.started = pending.position
            if pending.call.id in self.interrupted:
                self._report(pending, Outcome.CANCELLED)
            else:
                self._begin(pending)
        if self.current is None:
            self.flush()

    def _begin(self, pending: Pending) -> None:
        world = self.world
        id_ = pending.call.id
        if self.actor is not None:
            self._begin_call(id_)
        assert id_ not in world.finished, f"{id_:#x} runs again though engine {world.finished.get(id_)} had finished it"
        world.runs += 1
        self.current = pending
        if pending.run_s > 0.05 and self._out:
            self._out[0].send(Started(position=pending.position))
        if pending.run_s > FLUSH_S:
            self.flush()
        if pending.call.args.startswith(b"nest"):
            world.client_of(id_).nest(pending.call, lambda: self._finish(pending, Outcome.OK))
        else:
            world.after(pending.run_s, lambda: self._finish(pending, Outcome.OK))

    def _begin_call(self, id_: TaskId) -> None:
        """An actor is made once an engine, and the calls of each caller begin in order."""
        assert self.actor is not None
        if id_ == self.actor.create.actor:
            assert not self.begun, "an actor is made twice"
            self.world.finished.pop(id_, None)
        else:
            assert self.begun.get(client_of(id_), 0) < id_, "calls are out of order"
        self.begun[client_of(id_)] = max(id_, self.begun.get(client_of(id_), 0))

    def _finish(self, pending: Pending, outcome: Outcome) -> None:
        if self.dead or self.current is not pending:
            return
        self.current = None
        self.world.client_of(pending.call.id).go_on(pending.call.id)
        self._report(pending, outcome)
        self._go_on()

    def _report(self, pending: Pending, outcome: Outcome) -> None:
        id_ = pending.call.id
        self.interrupted.discard(id_)
        self.world.finished[id_] = self.id
        self.ready.append(Result(id_, b"value of %d" % id_, outcome))
        self.ready_s += pending.run_s
        if self.ready_s >= FLUSH_S:
            self.flush()

    def flush(self, send: bool = True) -> None:
        if not self.ready:
            return
        self.sequence += 1
        done = Done(sequence=self.sequence, results=self.ready, run_s=self.ready_s)
        self.ready, self.ready_s = [], 0.0
        self.kept.append(done)
        if send and self._data is not None:
            self._data.send(done)


@dataclass
class Asked:
    """One call of a client that is not answered."""

    function: bytes
    call: Call
    options: TaskOptions
    rank: Rank | None = None
    actor: ObjectId | None = None
    parent: TaskId | None = None
    cancelled: bool = False


class SimClient:
    """Submits, acknowledges, breaks off, comes back, and submits again what was not answered."""

    def __init__(self, world: World, id_: ClientId) -> None:
        self.world = world
        self.id = id_
        self.seats = world.plan.seats
        self.pending: dict[TaskId, Asked] = {}
        self.answers: dict[TaskId, Result] = {}
        self.puts: dict[TaskId, Result] = {}
        self.actors: list[ObjectId] = []  # that it holds
        self.made: list[ObjectId] = []  # all that it has ever asked for
        self.creates: dict[ObjectId, CreateActor | PutObjects] = {}
        self.blocked: dict[TaskId, None] = {}
        self.waiting: dict[TaskId, Callable[[], None]] = {}  # what goes on when a child is answered
        self.functions = [repr(run_s).encode() for run_s in world.plan.run_s]
        self.next_id = first_id(id_) + 1
        self.sequence = 0
        self.twice = 0
        self._up: Pipe | None = None
        self._down: Pipe | None = None
        self._epoch = 0

    # ---- link --------------------------------------------------------------------------------------------

    def redial(self) -> None:
        self._epoch += 1
        epoch = self._epoch
        self.world.after(self.world.random.uniform(0.005, 0.3), lambda: self._attach(epoch))

    def _attach(self, epoch: int) -> None:
        hub = self.world.hub
        if hub is None or epoch != self._epoch:
            return
        self._up = Pipe(self.world, lambda message: hub.from_client(self.id, message))  # type: ignore[arg-type]
        self._down = Pipe(self.world, self._hear)
        hub.handle(ClientAttached(client=self.id, lease_s=60.0, resumes=True))

    def link_broke(self) -> None:
        self._epoch += 1
        for pipe in (self._up, self._down):
            if pipe is not None:
                pipe.cut = True
        self._up = self._down = None

    def break_off(self) -> None:
        """The link breaks, the hub lives."""
        hub = self.world.hub
        if hub is not None and self._up is not None:
            self.link_broke()
            hub.handle(ClientGone(client=self.id))
            self.redial()

    def hear_later(self, message: Message) -> None:
        if self._down is not None:
            self._down.send(message)

    def send(self, message: ClientMessage) -> None:
        if self._up is not None:
            self._up.send(message)

    def _hear(self, message: Message) -> None:
        match message:
            case Recovered(fresh=fresh):
                if fresh:
                    self.sequence = 0
                self._tell_again()
            case Deliver():
                self._take(message)

    def _tell_again(self) -> None:
        for function in self.functions:
            self.send(DefineFunction(digest=function, code=function))
        if self.puts:
            self.send(PutObjects(objects=list(self.puts.values())))
        if self.id == 1:
            self.send(Scale(seats=self.seats))
        for create in self.creates.values():
            self.send(create)
        for task in self.blocked:
            self.send(Blocked(task=task))
        for asked in list(self.pending.values()):
            self._send(asked)
            if asked.cancelled:
                self.send(Cancel(tasks=[asked.call.id]))

    def _take(self, message: Deliver) -> None:
        if message.sequence > self.sequence:
            assert message.sequence == self.sequence + 1, "a delivery is missing"
            self.sequence = message.sequence
            for result in message.results:
                self._answer(result)
        self.send(Acknowledge(sequence=self.sequence))

    def _answer(self, result: Result) -> None:
        if result.id in self.made:
            self._hear_of_end(result)
            return
        if self.pending.pop(result.id, None) is None:
            assert result.id in self.answers, "an answer to nothing"
            assert result.value == self.answers[result.id].value, "two answers that differ"
            self.twice += 1
        self.answers[result.id] = result
        resume = self.waiting.pop(result.id, None)
        if resume is not None:
            resume()

    def _hear_of_end(self, result: Result) -> None:
        """An actor has ended, or was never made: a new hub is told that, rather than to make it."""
        assert result.outcome
        if result.id in self.creates:
            self.creates[result.id] = PutObjects(objects=[result])

    # ---- work --------------------------------------------------------------------------------------------

    def submit(self, count: int) -> None:
        """Ask for calls of one function, some with inputs; or, sometimes, for pinned ones."""
        draw = self.world.random
        function = draw.choice(self.functions)
        actor = self._some_actor() if draw.random() < 0.5 else None
        options = TaskOptions(max_retries=draw.choice([0, 3, 50, 50, 50]))
        nesting = self.world.plan.nesting if actor is None and draw.random() < 0.3 else 0
        calls = []
        for _ in range(count):
            args = b"nest%d" % nesting if nesting else b"args"
            calls.append(Call(self._new_id(), args, self._inputs() if draw.random() < 0.2 else ()))
        rank = draw.randrange(self.world.plan.seats + 1) if actor is None and draw.random() < 0.1 else None
        asked = [Asked(function, call, options, rank, actor) for call in calls]
        self.pending.update((each.call.id, each) for each in asked)
        if actor is not None:
            self.send(CallActor(actor=actor, function=function, calls=calls, options=options))
        elif rank is None:
            self.send(Submit(function=function, calls=calls, options=options))
        else:
            for each in asked:
                self._send(each)

    def _send(self, asked: Asked) -> None:
        call = asked.call
        if asked.actor is not None:
            self.send(CallActor(actor=asked.actor, function=asked.function, calls=[call], options=asked.options))
        elif asked.rank is None:
            self.send(Submit(function=asked.function, calls=[call], options=asked.options, parent=asked.parent))
        else:
            self.send(
                SubmitPinned(
                    function=asked.function,
                    first=call.id,
                    ranks=[asked.rank],
                    args=[call.args],
                    deps=call.deps,
                    options=asked.options,
                )
            )

    def _inputs(self) -> tuple[TaskId, ...]:
        """Refer to a call that is not answered, or to a value that the hub is made to hold."""
        if not self.world.plan.chains:
            return ()
        draw = self.world.random
        if self.pending and draw.random() < 0.5:
            return (draw.choice(list(self.pending)),)
        if self.answers:
            result = self.answers[draw.choice(list(self.answers))]
            self.puts[result.id] = result
            self.send(PutObjects(objects=[result]))
            return (result.id,)
        return ()

    # ---- actors and nesting ------------------------------------------------------------------------------

    def make_actor(self) -> None:
        """Ask for an actor, and hold it."""
        draw = self.world.random
        cpus = draw.choice([0, 0, 100])  # all together leave a seat to tasks
        options = ActorOptions(
            max_restarts=draw.choice([0, 3, -1, -1]),
            detached=draw.random() < 0.2,
            resources=Resources(milli_cpus=cpus),
        )
        create = CreateActor(actor=self._new_id(), function=draw.choice(self.functions), args=b"init", options=options)
        self.creates[create.actor] = create
        self.actors.append(create.actor)
        self.made.append(create.actor)
        self.send(create)

    def _some_actor(self) -> ObjectId | None:
        actors = [actor for client in self.world.clients for actor in client.actors]
        return self.world.random.choice(actors) if actors else None

    def kill_actor(self) -> None:
        """End an actor; or only its engine. Who has told that it is to end does not ask for it again."""
        if self.actors:
            actor = self.world.random.choice(self.actors)
            no_restart = self.world.random.random() < 0.3
            self.send(KillActor(actor=actor, no_restart=no_restart))
            if no_restart:
                self.drop_actor(actor)

    def drop_actor(self, actor: ObjectId) -> None:
        """Let go of an actor; calls of others to it may come until they do so, too."""
        self.actors.remove(actor)
        del self.creates[actor]
        self.send(Release(objects=[actor]))

    def end_actors(self) -> None:
        for actor in list(self.actors):
            self.drop_actor(actor)
        for actor in self.made:  # those that are detached stay else
            self.send(KillActor(actor=actor))

    def nest(self, call: Call, finish: Callable[[], None]) -> None:
        """A task that runs submits another one, and goes on when that has been answered."""
        depth = int(call.args[4:]) - 1
        child = Call(self._new_id(), b"nest%d" % depth if depth else b"args")
        asked = Asked(self.functions[0], child, TaskOptions(max_retries=50), None, None, call.id)
        self.pending[child.id] = asked
        self.blocked[call.id] = None
        self.send(Blocked(task=call.id))
        self._send(asked)
        self.waiting[child.id] = finish

    def go_on(self, task: TaskId) -> None:
        """A task does not wait any more, if it did."""
        if task in self.blocked:
            del self.blocked[task]
            self.send(Unblocked(task=task))

    def let_go(self) -> None:
        """Release the values that no pending call refers to."""
        needed = {object_id for asked in self.pending.values() for object_id in asked.call.deps}
        for object_id in [object_id for object_id in self.puts if object_id not in needed]:
            del self.puts[object_id]
            self.send(Release(objects=[object_id]))

    def cancel(self) -> None:
        if self.pending:
            asked = self.world.random.choice(list(self.pending.values()))
            asked.cancelled = True
            self.send(Cancel(tasks=[asked.call.id], force=self.world.random.random() < 0.2))

    def rescale(self) -> None:
        self.seats = self.world.random.randint(2, self.world.plan.seats)
        self.send(Scale(seats=self.seats))

    def _new_id(self) -> TaskId:
        self.next_id += 1
        return self.next_id - 1

    def leave(self) -> None:
        self.send(Goodbye(stop=True))
