"""A state machine that drives the scheduler at random; see `tests.core.cluster` for what is checked after every step.

No task is lost, none runs again after it was answered unless its value was lost. At the end all work is brought to an
end, and then nothing may be left.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from fibernb.core.events import (
    ClientGone,
    EngineAttached,
    EngineUnreachable,
    NodeUp,
    StartFailed,
    StoreLost,
)
from fibernb.core.messages import (
    Acknowledge,
    Autoscale,
    Cancel,
    Consume,
    Fetch,
    Goodbye,
    Hold,
    InterruptRanks,
    PutObjects,
    Remember,
    RestartSeats,
    Scale,
    Started,
    StateRequest,
    StatusRequest,
    Submit,
    SubmitPinned,
)
from fibernb.model import (
    STREAM_IDS,
    STREAMING,
    Call,
    ClientId,
    EngineId,
    Rank,
    Resources,
    Result,
    TaskOptions,
    first_id,
)
from tests.core.cluster import CLIENTS, FUNCTIONS, GUEST, Cluster

STREAM = TaskOptions(num_returns=STREAMING, max_retries=2)
OPTIONS = (
    TaskOptions(),
    TaskOptions(max_retries=0),
    TaskOptions(max_retries=1, retry_exceptions=True),
    TaskOptions(resources=Resources(milli_cpus=2000)),
    TaskOptions(resources=Resources(milli_gpus=1000)),
    TaskOptions(num_returns=2),
)
KINDS = ("plain", "stored", "container", "error", "again")  # what a task may come to
clients = st.integers(0, 5)
ranks = st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True)
picks = st.integers(0, 1_000)


class SchedulerMachine(Cluster):
    def pick(self, items: list[EngineId], number: int) -> EngineId:
        return items[number % len(items)]

    @initialize()
    def begin(self) -> None:
        capacity = Resources(milli_cpus=0, milli_gpus=1000)
        self.scheduler.handle(NodeUp(node="n", capacity=capacity), self.now)
        self.come(CLIENTS[0])
        self.say(CLIENTS[0], Scale(seats=2))
        self.round()

    # ---- clients -----------------------------------------------------------------------------------------

    @rule(client=st.sampled_from(CLIENTS))
    def attach(self, client: ClientId) -> None:
        self.come(client)

    @precondition(lambda self: self.attached())
    @rule(number=picks)
    def attach_guest(self, number: int) -> None:
        """A task begins to use the cluster itself."""
        engine = self.pick(self.attached(), number)
        self.come(GUEST + engine, engine)

    @rule(number=clients, swallowed=st.integers(0, 2))
    def break_off(self, number: int, swallowed: int) -> None:
        """A link breaks, and swallows some releases."""
        client = self.user(number)
        if client is not None:
            model = self.clients[client]
            model.attached = False
            self.scheduler.handle(ClientGone(client=client), self.now)
            model.held.difference_update(sorted(model.held)[:swallowed])
            self.step()

    @rule(client=st.just(CLIENTS[1]))
    def leave(self, client: ClientId) -> None:
        if client in self.clients and self.clients[client].attached and not self.over:
            self.say(client, Goodbye())

    @rule(number=clients, count=st.integers(1, 30), options=st.sampled_from(OPTIONS), f=st.sampled_from(FUNCTIONS))
    def submit(self, number: int, count: int, options: TaskOptions, f: bytes) -> None:
        client = self.user(number)
        if client is not None:
            calls = [Call(id_, b"x") for id_ in self.new_ids(client, count, options.num_returns)]
            self.say(client, Submit(function=f, calls=calls, options=options))

    @rule(number=clients)
    def submit_stream(self, number: int) -> None:
        client = self.user(number)
        if client is not None:
            self.next_id[client] = -(-self.next_id.get(client, first_id(client)) // STREAM_IDS) * STREAM_IDS
            (id_,) = self.new_ids(client, 1)
            self.next_id[client] += STREAM_IDS
            self.clients[client].streams.append(id_)
            self.say(client, Submit(function=b"f", calls=[Call(id_, b"x")], options=STREAM))

    @rule(number=clients, items=st.integers(0, 5))
    def consume(self, number: int, items: int) -> None:
        client = self.user(number)
        if client is not None and self.clients[client].streams:
            self.say(client, Consume(task=self.clients[client].streams[-1], items=items))

    @rule(number=clients, numbers=st.lists(picks, min_size=1, max_size=3), options=st.sampled_from(OPTIONS[:3]))
    def submit_dependent(self, number: int, numbers: list[int], options: TaskOptions) -> None:
        client = self.user(number)
        if client is not None:
            sources = self.reach(client) or [first_id(9)]
            named = tuple(sources[-1 - each % len(sources)] for each in numbers)
            (id_,) = self.new_ids(client, 1)
            self.say(client, Submit(function=b"f", calls=[Call(id_, b"x", named[:2], named[1:])], options=options))

    @rule(number=clients, parent=picks, count=st.integers(1, 3))
    def submit_children(self, number: int, parent: int, count: int) -> None:
        client = self.user(number)
        if client is not None and self.clients[client].known:
            known = self.clients[client].known
            calls = [Call(id_, b"x") for id_ in self.new_ids(client, count)]
            self.say(client, Submit(function=b"g", calls=calls, parent=known[-1 - parent % len(known)]))

    @rule(number=clients, ranks=ranks)
    def pin(self, number: int, ranks: list[Rank]) -> None:
        client = self.user(number)
        if client is not None:
            ids = self.new_ids(client, len(ranks))
            sources = sorted(self.clients[client].held)[-1:]
            pinned = SubmitPinned(function=b"f", first=ids[0], ranks=ranks, args=[b""], deps=tuple(sources))
            self.say(client, pinned)

    # ---- objects -----------------------------------------------------------------------------------------

    @rule(number=clients, stored=st.booleans(), contains=st.booleans())
    def put(self, number: int, stored: bool, contains: bool) -> None:
        client = self.user(number)
        if client is not None:
            (id_,) = self.new_ids(client, 1)
            model = self.clients[client]
            model.pending.discard(id_)
            refs = tuple(self.reach(client)[-1:]) if contains else ()
            model.known.remove(id_)
            model.held.add(id_)
            self.say(client, PutObjects(objects=[Result(id_, b"v", blocks=self.write() if stored else (), refs=refs)]))

    @rule(number=clients, which=picks)
    def release(self, number: int, which: int) -> None:
        client = self.user(number)
        if client is not None and self.clients[client].held:
            self.let_go(client, [sorted(self.clients[client].held)[which % len(self.clients[client].held)]])

    @rule(number=clients)
    def release_what_came_twice(self, number: int) -> None:
        client = self.user(number)
        if client is not None:
            unwanted, self.clients[client].unwanted = self.clients[client].unwanted, []
            self.let_go(client, unwanted)

    @rule(number=clients, other=clients, which=picks, fetch=st.booleans())
    def hold(self, number: int, other: int, which: int, fetch: bool) -> None:
        """A client comes by the reference of another, and may ask for its value."""
        client, source = self.user(number), self.user(other)
        if client is None or source is None or not self.reach(source):
            return
        id_ = self.reach(source)[which % len(self.reach(source))]
        self.clients[client].held.add(id_)
        self.say(client, Fetch(objects=[id_], lost=self.missed(id_)) if fetch else Hold(objects=[id_]))

    @rule(told=st.booleans())
    def store_ends(self, told: bool) -> None:
        """If that is not told, those who look find out."""
        if self.over:
            return
        self.generation += 1
        self.written.clear()
        if told:
            self.scheduler.handle(StoreLost(generation=self.generation - 1, reason="it was killed"), self.now)
        self.step()

    # ---- steering ----------------------------------------------------------------------------------------

    @rule(number=clients, numbers=st.lists(picks, min_size=1, max_size=20), force=st.booleans(), deep=st.booleans())
    def cancel(self, number: int, numbers: list[int], force: bool, deep: bool) -> None:
        client = self.user(number)
        if client is not None and self.clients[client].known:
            known = self.clients[client].known
            tasks = [known[-1 - each % len(known)] for each in numbers]
            self.say(client, Cancel(tasks=tasks, force=force, recursive=deep))

    @rule(number=clients)
    def acknowledge(self, number: int) -> None:
        client = self.user(number)
        if client is not None:
            self.say(client, Acknowledge(sequence=self.clients[client].unacknowledged))

    @rule(number=clients, key=st.sampled_from("ab"), ranks=st.none() | ranks, count=st.integers(0, 2))
    def remember(self, number: int, key: str, ranks: list[Rank] | None, count: int) -> None:
        client = self.user(number)
        if client is not None:
            refs = tuple(sorted(self.clients[client].held)[:count])
            self.say(client, Remember(keys=(key,), function=b"f", args=[b"x"], ranks=ranks, refs=refs))

    @rule(number=clients, seats=st.integers(0, 4))
    def scale(self, number: int, seats: int) -> None:
        client = self.user(number)
        if client is not None:
            self.say(client, Scale(seats=seats))

    @rule(number=clients, maximum=st.none() | st.integers(1, 4))
    def autoscale(self, number: int, maximum: int | None) -> None:
        client = self.user(number)
        if client is not None:
            self.say(client, Autoscale(minimum=1, maximum=maximum, idle_s=3.0))

    @rule(number=clients, ranks=ranks)
    def restart(self, number: int, ranks: list[Rank]) -> None:
        client = self.user(number)
        if client is not None:
            self.say(client, RestartSeats(ranks=ranks))

    @rule(number=clients, ranks=ranks)
    def interrupt(self, number: int, ranks: list[Rank]) -> None:
        client = self.user(number)
        if client is not None:
            self.say(client, InterruptRanks(ranks=ranks))

    @rule(number=clients, kind=st.sampled_from(["tasks", "objects", "engines", "spans", "nodes"]))
    def ask(self, number: int, kind: str) -> None:
        client = self.user(number)
        if client is not None:
            self.say(client, StatusRequest(request=1), StateRequest(request=2, kind=kind))

    # ---- engines -----------------------------------------------------------------------------------------

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
    @rule(
        number=picks,
        count=st.integers(1, 20),
        run_s=st.sampled_from([1e-5, 1e-3, 0.2]),
        kind=st.sampled_from(KINDS),
        which=picks,
    )
    def engine_finishes(self, number: int, count: int, run_s: float, kind: str, which: int) -> None:
        id_ = self.pick(self.attached(), number)
        self.finish(id_, count, run_s, kind, which)
        self.step()

    @precondition(lambda self: self.attached())
    @rule(number=picks, count=st.integers(1, 3), stored=st.booleans())
    def engine_gives_items(self, number: int, count: int, stored: bool) -> None:
        self.give_items(self.pick(self.attached(), number), count, stored)
        self.step()

    @rule(kind=st.sampled_from(KINDS), which=picks)
    def all_work(self, kind: str, which: int) -> None:
        self.round(kind, which)

    @rule(number=clients)
    def all_is_fetched_again(self, number: int) -> None:
        """A client looks at everything that it holds, and finds out what is gone."""
        client = self.user(number)
        if client is not None:
            held = sorted(self.clients[client].held)
            self.say(client, Fetch(objects=held, lost=[block for id_ in held for block in self.missed(id_)]))

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

    @precondition(lambda self: self.engines)
    @rule(number=picks, code=st.sampled_from([None, -9, 1]))
    def engine_exits(self, number: int, code: int | None) -> None:
        self.end(self.pick(list(self.engines), number), code)
        self.step()

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


SchedulerMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
TestScheduler = SchedulerMachine.TestCase
