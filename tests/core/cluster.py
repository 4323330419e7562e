"""A cluster for the state machine: clients, engines and a store that do what the scheduler says, and keep books.

After every step the board must agree with itself, and these books with the board: every client holds what it thinks it
holds, and the store has exactly the blocks of what is held or used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from hypothesis.stateful import RuleBasedStateMachine

from fibernb.core.commands import (
    Command,
    DropClient,
    FreeBlocks,
    KeepBlocks,
    KillEngine,
    ShutDown,
    StartEngine,
    TellClient,
    TellEngine,
)
from fibernb.core.events import (
    ClientAttached,
    EngineAttached,
    EngineExited,
)
from fibernb.core.messages import (
    Acknowledge,
    ClientMessage,
    Consume,
    DefineFunction,
    Deliver,
    Done,
    Exit,
    Forget,
    Hold,
    Interrupt,
    Recall,
    Recalled,
    Release,
    Remember,
    Run,
    Scale,
)
from fibernb.core.scheduler import Scheduler
from fibernb.core.settings import CoreSettings
from fibernb.model import (
    COUNTER_BITS,
    STREAMING,
    BlockId,
    ClientId,
    EngineId,
    ObjectId,
    Outcome,
    Rank,
    Result,
    TaskId,
    first_id,
    stream_of,
)
from tests.core.bench import PlainErrors
from tests.core.invariants import board_of, check, sizes

GUEST = 1000  # the client that lives in an engine has the engine's id above this
CLIENTS = (3, 4)
FUNCTIONS = (b"f", b"g")


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
        self.inputs: dict[TaskId, set[BlockId]] = {}
        self.streams: dict[TaskId, int] = {}  # items that it has given

    def run(self, message: Run) -> None:
        assert message.position == self.received, "positions have gaps"
        blocks = {given.id: set(given.blocks) for given in message.inputs}
        for call in message.calls:
            self.inputs[call.id] = {block for id_ in call.deps for block in blocks[id_]}
            if message.options.num_returns == STREAMING:
                self.streams[call.id] = 0
            self.line.append((self.received, call.id))
            self.received += 1


class ModelClient:
    """What a client knows."""

    def __init__(self) -> None:
        self.attached = True
        self.counter = 0
        self.pending: set[TaskId] = set()
        self.unacknowledged = 0
        self.held: set[ObjectId] = set()
        self.known: list[TaskId] = []
        self.streams: list[TaskId] = []
        self.items: set[ObjectId] = set()
        self.unwanted: list[ObjectId] = []  # items that came twice
        self.excused: set[ObjectId] = set()  # a break may have swallowed that they came, and were released


class Cluster(RuleBasedStateMachine):
    """What `SchedulerMachine` steers."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 10.0
        self.scheduler = Scheduler(CoreSettings(restart_delay_s=0.1, lease_s=1e6), PlainErrors())
        self.engines: dict[EngineId, ModelEngine] = {}
        self.clients: dict[ClientId, ModelClient] = {}
        self.next_id: dict[ClientId, TaskId] = {}
        self.answered: set[TaskId] = set()
        self.generation = 1
        self.last_block = 0
        self.written: set[BlockId] = set()  # that have not been freed, and have not gone with their store
        self.over = False

    # ---- the scheduler's driver --------------------------------------------------------------------------

    def step(self) -> None:
        for command in self.scheduler.drain(self.now):
            self.carry_out(command)
        check(self.scheduler)
        self.compare()
        wake = self.scheduler.next_wakeup(self.now)
        assert wake is None or wake > self.now, "a timer that is due was not fired"

    def compare(self) -> None:
        """Clients hold what they think they hold, and the store has what somebody needs."""
        if self.over:
            return
        board = board_of(self.scheduler)
        for id_, model in self.clients.items():
            client = board.clients[id_]
            if model.attached:
                doubtful = client.doubtful | model.excused | self.coming(id_)
                assert client.objects - doubtful <= model.held, client.objects - doubtful - model.held
                assert model.held <= client.objects, model.held - client.objects
        assert self.written == {block for block in board.objects.blocks if not self.gone(block)}

    def coming(self, client: ClientId) -> set[ObjectId]:
        return {part.id for r in board_of(self.scheduler).clients[client].on_the_way() for part in (r, *r.more)}

    def gone(self, block: BlockId) -> bool:
        return block >> COUNTER_BITS != self.generation

    def write(self) -> tuple[BlockId, ...]:
        self.last_block += 1
        block = self.generation << COUNTER_BITS | self.last_block
        self.written.add(block)
        return (block,)

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
            case KeepBlocks(blocks=blocks):
                assert all(self.gone(block) or block in self.written for block in blocks)
            case FreeBlocks(blocks=blocks):
                assert len(set(blocks)) == len(blocks), "a block was freed twice"
                assert all(self.gone(block) or block in self.written for block in blocks)
                self.written.difference_update(blocks)
            case ShutDown():
                self.over = True

    def hear_engine(self, engine: ModelEngine, message: object) -> None:
        assert engine.attached
        match message:
            case Run():
                made_again = board_of(self.scheduler).objects.lineages
                for call in message.calls:
                    assert call.id not in self.answered or call.id in made_again, "a task runs again"
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
                assert isinstance(message, Forget | Consume)

    def deliver(self, client: ModelClient, message: Deliver) -> None:
        assert client.attached
        if message.sequence <= client.unacknowledged:
            return
        client.unacknowledged = message.sequence
        for result in message.results:
            client.pending.discard(result.id)
            self.answered.add(result.id)
            for part in (result, *result.more):
                self.take_in(client, part)

    def take_in(self, client: ModelClient, part: Result) -> None:
        is_item = stream_of(part.id) in client.streams and part.id not in client.streams
        if is_item and part.id in client.items and part.id not in client.held:
            client.unwanted.append(part.id)
        if is_item:
            client.items.add(part.id)
        if is_item or part.blocks or part.refs:
            client.held.add(part.id)

    def say(self, client: ClientId, *messages: ClientMessage) -> None:
        for message in messages:
            self.scheduler.client_message(client, message, self.now)
        self.step()

    def new_ids(self, client: ClientId, count: int, width: int = 1) -> list[TaskId]:
        first = self.next_id.setdefault(client, first_id(client))
        self.next_id[client] += count * width
        ids = [first + index * width for index in range(count)]
        self.clients[client].pending.update(ids)
        self.clients[client].known.extend(ids)
        return ids

    # ---- what clients do ---------------------------------------------------------------------------------

    def user(self, number: int) -> ClientId | None:
        """One of the clients that are attached."""
        usable = [client for client, model in self.clients.items() if model.attached]
        return None if self.over or not usable else usable[number % len(usable)]

    def come(self, client: ClientId, engine: EngineId | None = None) -> None:
        """A client attaches, maybe after a break, and tells what it holds."""
        if self.over:
            return
        model = self.clients.setdefault(client, ModelClient())
        model.attached = True
        self.scheduler.handle(ClientAttached(client=client, lease_s=20.0, engine=engine), self.now)
        hold = Hold(objects=sorted(model.held))
        model.excused |= self.coming(client)
        self.say(client, *(DefineFunction(digest=digest, code=b"code") for digest in FUNCTIONS), hold)

    def reach(self, client: ClientId) -> list[ObjectId]:
        """Objects that a client may name: what it holds, and its own tasks that are not answered."""
        model = self.clients[client]
        return sorted(model.held) + [id_ for id_ in model.known if id_ in model.pending]

    def let_go(self, client: ClientId, objects: Iterable[ObjectId]) -> None:
        self.clients[client].held.difference_update(objects)
        self.say(client, Release(objects=list(objects)))

    def missed(self, id_: ObjectId) -> list[BlockId]:
        """Blocks of an object that someone who looks would miss."""
        entry = board_of(self.scheduler).objects.entries.get(id_)
        blocks = () if entry is None or entry.result is None else entry.result.blocks
        return [block for block in blocks if self.gone(block)]

    # ---- what engines do ---------------------------------------------------------------------------------

    def attached(self) -> list[EngineId]:
        return [id_ for id_, engine in self.engines.items() if engine.attached]

    def starting(self) -> list[EngineId]:
        return [id_ for id_, engine in self.engines.items() if not engine.attached]

    def finish(self, id_: EngineId, count: int, run_s: float, kind: str, which: int = 0) -> None:
        engine = self.engines[id_]
        results = []
        for _ in range(min(count, len(engine.line))):
            _, task = engine.line.popleft()
            results.append(self.outcome(engine, task, kind, which))
        self.send_done(id_, results, run_s * len(results))

    def send_done(self, id_: EngineId, results: list[Result], run_s: float) -> None:
        engine = self.engines[id_]
        if results:
            engine.sequence += 1
            self.scheduler.engine_message(id_, Done(sequence=engine.sequence, results=results, run_s=run_s), self.now)

    def outcome(self, engine: ModelEngine, task: TaskId, kind: str, which: int) -> Result:
        missed = tuple(sorted(filter(self.gone, engine.inputs.get(task, ()))))
        engine.streams.pop(task, None)
        if task in engine.interrupted:
            return Result(task, b"v", Outcome.CANCELLED)
        if missed:
            return Result(task, b"", Outcome.LOST, (), missed)
        if kind in ("error", "again"):
            return Result(task, b"v", Outcome.ERROR if kind == "error" else Outcome.RETRY)
        more = self.value(task + 1, kind, which) if self.has_second(task) else None
        value = self.value(task, kind, which)
        return Result(task, b"v", more=() if more is None else (more,), blocks=value.blocks, refs=value.refs)

    def value(self, id_: ObjectId, kind: str, which: int) -> Result:
        blocks = self.write() if kind == "stored" else ()
        return Result(id_, b"v", blocks=blocks, refs=self.contents(id_, kind, which))

    def has_second(self, task: TaskId) -> bool:
        found = board_of(self.scheduler).tasks.get(task)
        return found is not None and found.group.options.num_returns == 2

    def contents(self, task: TaskId, kind: str, which: int) -> tuple[ObjectId, ...]:
        """What a value may contain: anything that is known, so long as it does not contain the value in turn."""
        known = [id_ for id_ in board_of(self.scheduler).objects.entries if kind == "container"]
        chosen = known[which % len(known)] if known else task
        return () if task in self.inside(chosen) else (chosen,)

    def inside(self, object_id: ObjectId) -> set[ObjectId]:
        entries = board_of(self.scheduler).objects.entries
        found: set[ObjectId] = set()
        rest = [object_id]
        while rest:
            id_ = rest.pop()
            if id_ not in found:
                found.add(id_)
                entry = entries.get(id_)
                rest += () if entry is None or entry.result is None else entry.result.refs
        return found

    def give_back(self, id_: EngineId, begun: int) -> None:
        engine = self.engines[id_]
        recall, engine.recall = engine.recall, None
        assert recall is not None
        first = engine.line[0][0] + begun if engine.line else recall.until
        position = max(recall.position, min(first, recall.until))
        engine.line = deque(item for item in engine.line if not position <= item[0] < recall.until)
        self.scheduler.engine_message(id_, Recalled(position=position, until=recall.until), self.now)

    def end(self, id_: EngineId, code: int | None) -> None:
        del self.engines[id_]
        self.scheduler.handle(EngineExited(engine=id_, exit_code=code), self.now)

    # ---- the end -----------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if self.over or not self.clients:
            return
        for client in CLIENTS:
            if client in self.clients:
                self.come(client)
        someone = next(iter(self.clients))  # any other may have gone for good
        self.say(someone, Scale(seats=4))
        for _ in range(400):
            pending = any(self.clients[client].pending for client in CLIENTS if client in self.clients)
            busy = any(engine.line for engine in self.engines.values())
            if not (pending or busy or board_of(self.scheduler).tasks):
                break
            self.round()
        self.end_guests()
        for client, model in self.clients.items():
            assert not model.pending, f"lost: {sorted(map(hex, model.pending))[:5]}"
            self.say(client, Acknowledge(sequence=model.unacknowledged))
            self.let_go(client, sorted(model.held))
            self.let_go(client, model.excused)
        for key in "ab":
            self.say(someone, Remember(keys=(key,), function=b"f", args=[b"x"]))
        self.now += 11.0
        self.step()
        assert not any(sizes(self.scheduler).values()), sizes(self.scheduler)
        assert not self.written

    def end_guests(self) -> None:
        """Clients in engines end with these."""
        for client in [client for client in self.clients if client >= GUEST]:
            self.end(client - GUEST, 0)
            self.step()

    def give_items(self, id_: EngineId, count: int, stored: bool) -> None:
        """Let a streaming task go on, if one runs there."""
        engine = self.engines[id_]
        task = engine.line[0][1] if engine.line else 0
        items = []
        for _ in range(count if task in engine.streams else 0):
            engine.streams[task] += 1
            items.append(Result(task + engine.streams[task], b"i", blocks=self.write() if stored else ()))
        self.send_done(id_, items, 0.0)

    def round(self, kind: str = "stored", which: int = 0) -> None:
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
                self.give_items(id_, 2, stored=True)
                self.finish(id_, 100, 0.001, kind, which)
        self.now += 0.5
        self.step()
