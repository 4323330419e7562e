"""A state machine that drives the scheduler at random.

After every step the board must agree with itself, and the model with the board: no task is lost, none runs again
after it was answered. At the end all work is brought to an end, and then nothing may be left.
"""

from __future__ import annotations

from collections import deque

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fibernb.core.commands import Command, DropClient, KillEngine, ShutDown, StartEngine, TellClient, TellEngine
from fibernb.core.events import (
    ClientAttached,
    ClientGone,
    EngineAttached,
    EngineExited,
    EngineUnreachable,
    NodeUp,
    StartFailed,
)
from fibernb.core.messages import (
    Acknowledge,
    Autoscale,
    Cancel,
    ClientMessage,
    DefineFunction,
    Deliver,
    Done,
    Exit,
    Forget,
    Goodbye,
    Interrupt,
    InterruptRanks,
    PutObjects,
    Recall,
    Recalled,
    Release,
    Remember,
    RestartSeats,
    Run,
    Scale,
    Started,
    StatusRequest,
    Submit,
    SubmitPinned,
)
from fibernb.core.scheduler import Scheduler
from fibernb.core.settings import CoreSettings
from fibernb.model import Call, ClientId, EngineId, Outcome, Rank, Resources, Result, TaskId, TaskOptions, first_id
from tests.core.bench import PlainErrors
from tests.core.invariants import check, sizes

CLIENTS = (3, 4)
FUNCTIONS = (b"f", b"g")
OPTIONS = (
    TaskOptions(),
    TaskOptions(max_retries=0),
    TaskOptions(max_retries=1, retry_exceptions=True),
    TaskOptions(resources=Resources(milli_cpus=2000)),
    TaskOptions(resources=Resources(milli_gpus=1000)),
    TaskOptions(num_returns=2),
)
clients = st.sampled_from(CLIENTS)
ranks = st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True)
picks = st.integers(0, 1_000)


class ModelEngine:
    """What an engine knows."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.attached = False
        self.told_to_end = False
        self.line: deque[tuple[int, TaskId]] = deque()
        self.received = 0
        self.sequence = 0
        self.recall: Recall | None = None
        self.interrupted: set[TaskId] = set()

    def run(self, message: Run) -> None:
        assert message.position == self.received, "positions have gaps"
        for call in message.calls:
            self.line.append((self.received, call.id))
            self.received += 1


class ModelClient:
    """What a client knows."""

    def __init__(self) -> None:
        self.attached = True
        self.counter = 0
        self.pending: set[TaskId] = set()
        self.unacknowledged = 0
        self.puts: list[TaskId] = []
        self.known: list[TaskId] = []


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 10.0
        self.scheduler = Scheduler(CoreSettings(restart_delay_s=0.1, lease_s=1e6), PlainErrors())
        self.engines: dict[EngineId, ModelEngine] = {}
        self.clients: dict[ClientId, ModelClient] = {}
        self.next_id: dict[ClientId, TaskId] = {client: first_id(client) for client in CLIENTS}
        self.answered: set[TaskId] = set()
        self.over = False

    # ---- the driver --------------------------------------------------------------------------------------

    def step(self) -> None:
        for command in self.scheduler.drain(self.now):
            self.carry_out(command)
        check(self.scheduler)
        wake = self.scheduler.next_wakeup(self.now)
        assert wake is None or wake > self.now, "a timer that is due was not fired"

    def carry_out(self, command: Command) -> None:
        match command:
            case StartEngine(engine=engine, rank=rank):
                assert all(other.rank != rank for other in self.engines.values()), "two engines on one seat"
                self.engines[engine] = ModelEngine(rank)
            case KillEngine(engine=engine) if engine in self.engines:
                self.engines[engine].told_to_end = True
            case TellEngine(engine=engine, message=message):
                self.hear_engine(self.engines[engine], message)
            case TellClient(client=client, message=Deliver() as deliver):
                self.deliver(self.clients[client], deliver)
            case DropClient(client=client):
                del self.clients[client]
            case ShutDown():
                self.over = True

    def hear_engine(self, engine: ModelEngine, message: object) -> None:
        assert engine.attached
        match message:
            case Run():
                for call in message.calls:
                    assert call.id not in self.answered, "a task that was answered runs again"
                engine.run(message)
            case Recall():
                assert engine.recall is None, "two recalls at once"
                engine.recall = message
            case Interrupt(task=task):
                engine.interrupted.add(task)
            case Exit():
                assert not engine.line
                engine.told_to_end = True
            case _:
                assert isinstance(message, Forget)

    def deliver(self, client: ModelClient, message: Deliver) -> None:
        assert client.attached
        client.unacknowledged = message.sequence
        for result in message.results:
            client.pending.discard(result.id)
            self.answered.add(result.id)

    def say(self, client: ClientId, *messages: ClientMessage) -> None:
        for message in messages:
            self.scheduler.client_message(client, message, self.now)
        self.step()

    def new_ids(self, client: ClientId, count: int, width: int = 1) -> list[TaskId]:
        first = self.next_id[client]
        self.next_id[client] += count * width
        ids = [first + index * width for index in range(count)]
        self.clients[client].pending.update(ids)
        self.clients[client].known.extend(ids)
        return ids

    def pick(self, items: list[EngineId], number: int) -> EngineId:
        return items[number % len(items)]

    # ---- clients -----------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        capacity = Resources(milli_cpus=0, milli_gpus=1000)
        self.scheduler.handle(NodeUp(node="n", capacity=capacity), self.now)
        self.attach(CLIENTS[0])
        self.scale(CLIENTS[0], 2)

    @rule(client=clients)
    def attach(self, client: ClientId) -> None:
        if self.over:
            return
        self.clients.setdefault(client, ModelClient()).attached = True
        self.scheduler.handle(ClientAttached(client=client, lease_s=20.0), self.now)
        self.say(client, *(DefineFunction(digest=digest, code=b"code") for digest in FUNCTIONS))

    def usable(self, client: ClientId) -> bool:
        return not self.over and client in self.clients and self.clients[client].attached

    @rule(client=clients)
    def break_off(self, client: ClientId) -> None:
        if self.usable(client):
            self.clients[client].attached = False
            self.scheduler.handle(ClientGone(client=client), self.now)
            self.step()

    @rule(client=st.just(CLIENTS[1]))
    def leave(self, client: ClientId) -> None:
        if self.usable(client):
            self.say(client, Goodbye())

    @rule(client=clients, count=st.integers(1, 30), options=st.sampled_from(OPTIONS), f=st.sampled_from(FUNCTIONS))
    def submit(self, client: ClientId, count: int, options: TaskOptions, f: bytes) -> None:
        if self.usable(client):
            calls = [Call(id_, b"") for id_ in self.new_ids(client, count, options.num_returns)]
            self.say(client, Submit(function=f, calls=calls, options=options))

    @rule(client=clients, numbers=st.lists(picks, min_size=1, max_size=3), options=st.sampled_from(OPTIONS[:3]))
    def submit_dependent(self, client: ClientId, numbers: list[int], options: TaskOptions) -> None:
        if self.usable(client):
            model = self.clients[client]
            sources = model.known + model.puts or [first_id(9)]
            deps = tuple(sources[-1 - number % len(sources)] for number in numbers)
            (id_,) = self.new_ids(client, 1)
            self.say(client, Submit(function=b"f", calls=[Call(id_, b"", deps)], options=options))

    @rule(client=clients, number=picks, count=st.integers(1, 3))
    def submit_children(self, client: ClientId, number: int, count: int) -> None:
        if self.usable(client) and self.clients[client].known:
            known = self.clients[client].known
            parent = known[-1 - number % len(known)]
            calls = [Call(id_, b"") for id_ in self.new_ids(client, count)]
            self.say(client, Submit(function=b"g", calls=calls, parent=parent))

    @rule(client=clients, ranks=ranks)
    def pin(self, client: ClientId, ranks: list[Rank]) -> None:
        if self.usable(client):
            ids = self.new_ids(client, len(ranks))
            self.say(client, SubmitPinned(function=b"f", first=ids[0], ranks=ranks, args=[b""]))

    @rule(client=clients)
    def put(self, client: ClientId) -> None:
        if self.usable(client):
            id_ = self.next_id[client]
            self.next_id[client] += 1
            self.clients[client].puts.append(id_)
            self.say(client, PutObjects(objects=[Result(id_, b"v")]))

    @rule(client=clients)
    def release(self, client: ClientId) -> None:
        if self.usable(client) and self.clients[client].puts:
            self.say(client, Release(objects=[self.clients[client].puts.pop(0)]))

    @rule(client=clients, numbers=st.lists(picks, min_size=1, max_size=20), force=st.booleans(), deep=st.booleans())
    def cancel(self, client: ClientId, numbers: list[int], force: bool, deep: bool) -> None:
        if self.usable(client) and self.clients[client].known:
            known = self.clients[client].known
            tasks = [known[-1 - number % len(known)] for number in numbers]
            self.say(client, Cancel(tasks=tasks, force=force, recursive=deep))

    @rule(client=clients)
    def acknowledge(self, client: ClientId) -> None:
        if self.usable(client):
            self.say(client, Acknowledge(sequence=self.clients[client].unacknowledged))

    @rule(client=clients, key=st.sampled_from("ab"), ranks=st.none() | ranks)
    def remember(self, client: ClientId, key: str, ranks: list[Rank] | None) -> None:
        if self.usable(client):
            self.say(client, Remember(keys=(key,), function=b"f", args=[b"x"], ranks=ranks))

    @rule(client=clients, seats=st.integers(0, 4))
    def scale(self, client: ClientId, seats: int) -> None:
        if self.usable(client):
            self.say(client, Scale(seats=seats))

    @rule(client=clients, maximum=st.none() | st.integers(1, 4))
    def autoscale(self, client: ClientId, maximum: int | None) -> None:
        if self.usable(client):
            self.say(client, Autoscale(minimum=1, maximum=maximum, idle_s=3.0))

    @rule(client=clients, ranks=ranks)
    def restart(self, client: ClientId, ranks: list[Rank]) -> None:
        if self.usable(client):
            self.say(client, RestartSeats(ranks=ranks))

    @rule(client=clients, ranks=ranks)
    def interrupt(self, client: ClientId, ranks: list[Rank]) -> None:
        if self.usable(client):
            self.say(client, InterruptRanks(ranks=ranks))

    @rule(client=clients)
    def ask(self, client: ClientId) -> None:
        if self.usable(client):
            self.say(client, StatusRequest(request=1))

    # ---- engines -----------------------------------------------------------------------------------------

    def attached(self) -> list[EngineId]:
        return [id_ for id_, engine in self.engines.items() if engine.attached]

    def starting(self) -> list[EngineId]:
        return [id_ for id_, engine in self.engines.items() if not engine.attached]

    @precondition(lambda self: self.starting())
    @rule(number=picks)
    def engine_attaches(self, number: int) -> None:
        id_ = self.pick(self.starting(), number)
        engine = self.engines[id_]
        if not engine.told_to_end:
            engine.attached = True
        self.scheduler.handle(EngineAttached(engine=id_, rank=engine.rank, pid=1), self.now)
        self.step()

    @precondition(lambda self: self.starting())
    @rule(number=picks)
    def start_fails(self, number: int) -> None:
        id_ = self.pick(self.starting(), number)
        del self.engines[id_]
        self.scheduler.handle(StartFailed(engines=[id_], reason="no room"), self.now)
        self.step()

    @precondition(lambda self: self.attached())
    @rule(number=picks, count=st.integers(1, 20), run_s=st.sampled_from([1e-5, 1e-3, 0.2]), fails=st.booleans())
    def engine_finishes(self, number: int, count: int, run_s: float, fails: bool) -> None:
        id_ = self.pick(self.attached(), number)
        self.finish(id_, count, run_s, fails)
        self.step()

    def finish(self, id_: EngineId, count: int, run_s: float, fails: bool) -> None:
        engine = self.engines[id_]
        results = []
        for _ in range(min(count, len(engine.line))):
            _, task = engine.line.popleft()
            outcome = Outcome.ERROR if fails else Outcome.OK
            outcome = Outcome.CANCELLED if task in engine.interrupted else outcome
            results.append(Result(task, b"v", outcome, (b"w",)))
        if results:
            engine.sequence += 1
            done = Done(sequence=engine.sequence, results=results, run_s=run_s * len(results))
            self.scheduler.engine_message(id_, done, self.now)

    @precondition(lambda self: self.attached())
    @rule(number=picks, ahead=st.integers(0, 5))
    def engine_starts(self, number: int, ahead: int) -> None:
        id_ = self.pick(self.attached(), number)
        line = self.engines[id_].line
        if line:
            position = line[min(ahead, len(line) - 1)][0]
            self.scheduler.engine_message(id_, Started(position=position), self.now)
            self.step()

    @precondition(lambda self: any(engine.recall for engine in self.engines.values()))
    @rule(number=picks, begun=st.integers(0, 3))
    def engine_gives_back(self, number: int, begun: int) -> None:
        id_ = self.pick([id_ for id_, engine in self.engines.items() if engine.recall], number)
        self.give_back(id_, begun)
        self.step()

    def give_back(self, id_: EngineId, begun: int) -> None:
        engine = self.engines[id_]
        recall, engine.recall = engine.recall, None
        assert recall is not None
        first = engine.line[0][0] + begun if engine.line else recall.until
        position = max(recall.position, min(first, recall.until))
        engine.line = deque(item for item in engine.line if not position <= item[0] < recall.until)
        self.scheduler.engine_message(id_, Recalled(position=position, until=recall.until), self.now)

    @precondition(lambda self: self.engines)
    @rule(number=picks, code=st.sampled_from([None, -9, 1]))
    def engine_exits(self, number: int, code: int | None) -> None:
        self.end(self.pick(list(self.engines), number), code)
        self.step()

    def end(self, id_: EngineId, code: int | None) -> None:
        del self.engines[id_]
        self.scheduler.handle(EngineExited(engine=id_, exit_code=code), self.now)

    @precondition(lambda self: any(engine.told_to_end for engine in self.engines.values()))
    @rule()
    def told_engines_exit(self) -> None:
        for id_ in [id_ for id_, engine in self.engines.items() if engine.told_to_end]:
            self.end(id_, -9)
        self.step()

    @precondition(lambda self: self.attached())
    @rule(number=picks)
    def engine_breaks_off(self, number: int) -> None:
        self.scheduler.handle(EngineUnreachable(engine=self.pick(self.attached(), number)), self.now)
        self.step()

    @rule(seconds=st.sampled_from([0.001, 0.02, 0.1, 1.0, 5.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.step()

    # ---- the end -----------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if self.over or not self.clients:
            return
        for client in list(self.clients):
            self.attach(client)
        some = next(iter(self.clients))
        self.say(some, Scale(seats=4))
        for _ in range(400):
            if not any(model.pending for model in self.clients.values()) and not self.busy():
                break
            self.round()
        for client, model in self.clients.items():
            assert not model.pending, f"lost: {sorted(map(hex, model.pending))[:5]}"
            self.acknowledge(client)
            self.say(client, Release(objects=model.puts))
        self.time_passes(1.0)
        assert not any(sizes(self.scheduler).values()), sizes(self.scheduler)

    def busy(self) -> bool:
        return any(engine.line for engine in self.engines.values())

    def round(self) -> None:
        """Let everyone do what they have to do."""
        for id_, engine in list(self.engines.items()):
            if engine.told_to_end:
                self.end(id_, -9)
            elif not engine.attached:
                engine.attached = True
                self.scheduler.handle(EngineAttached(engine=id_, rank=engine.rank, pid=1), self.now)
            elif engine.recall is not None:
                self.give_back(id_, 1)
            else:
                self.finish(id_, 100, 0.001, False)
        self.now += 0.5
        self.step()


SchedulerMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
TestScheduler = SchedulerMachine.TestCase
