"""A scheduler on the bench: feeds it, carries out what is trivial, and sorts what it says. No processes, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from fibernb.core.commands import Command, FreeBlocks, KeepBlocks, KillEngine, StartEngine, TellClient, TellEngine
from fibernb.core.events import ClientAttached, EngineAttached, EngineExited, NodeUp
from fibernb.core.messages import (
    Acknowledge,
    ClientMessage,
    DefineFunction,
    Deliver,
    Done,
    EngineMessage,
    Recalled,
    Run,
    Scale,
    Status,
    StatusRequest,
    Submit,
    SubmitPinned,
)
from fibernb.core.scheduler import Event, Scheduler
from fibernb.core.settings import CoreSettings
from fibernb.model import (
    DEFAULT_OPTIONS,
    BlockId,
    Call,
    ClientId,
    EngineId,
    Outcome,
    Rank,
    Resources,
    Result,
    TaskId,
    TaskOptions,
    first_id,
)
from tests.core.invariants import board_of, check

M = TypeVar("M")

ANNA = 5
BERT = 6
F = b"f" * 16
G = b"g" * 16


class PlainErrors:
    """Error values that a test can read."""

    def told(self, value: bytes) -> str:
        return value.decode("utf-8", "replace")

    def worker_died(self, rank: Rank, node: str, exit_code: int | None, last_output: str, evidence: str) -> bytes:
        return f"died {rank} {node} {exit_code} {last_output} {evidence}".encode()

    def out_of_memory(self, rank: Rank, node: str, exit_code: int | None, last_output: str, evidence: str) -> bytes:
        return f"out of memory {rank} {node} {exit_code} {last_output} {evidence}".encode()

    def actor_died(self, actor: str, reason: str, exit_code: int | None = None) -> bytes:
        code = "" if exit_code is None else f" [{exit_code}]"
        return f"actor died: {actor}: {reason}{code}".encode()

    def cancelled(self, reason: str, engine_replaced: bool = False) -> bytes:
        return f"cancelled: {reason}{' (replaced)' if engine_replaced else ''}".encode()

    def unschedulable(self, asked: str, available: str) -> bytes:
        return f"unschedulable: {asked} of {available}".encode()

    def no_such_rank(self, rank: Rank, seats: int) -> bytes:
        return f"no rank {rank} of {seats}".encode()

    def unknown_object(self, object_id: int) -> bytes:
        return f"unknown object {object_id}".encode()

    def object_lost(self, object_id: int, reason: str) -> bytes:
        return f"object {object_id} lost: {reason}".encode()

    def too_large(self, size_bytes: int, limit_bytes: int) -> bytes:
        return f"too large: {size_bytes} of {limit_bytes}".encode()

    def refused(self, reason: str) -> bytes:
        return f"refused: {reason}".encode()


def task(number: int, client: ClientId = ANNA) -> TaskId:
    return first_id(client) + number


class Bench:
    """One scheduler, one node, as many engines as it asks for."""

    def __init__(self, seats: int = 2, settings: CoreSettings | None = None, *, slots: int | None = None) -> None:
        self.scheduler = Scheduler(settings or CoreSettings(), PlainErrors())
        self.now = 100.0
        self.commands: list[Command] = []
        self.sequences: dict[EngineId, int] = {}
        capacity = Resources(milli_cpus=0, milli_gpus=2000, memory_bytes=1000, custom={"disk": 1000})
        self.handle(NodeUp(node="local", slots=slots, capacity=capacity))
        self.attach()
        if seats:
            self.say(Scale(seats=seats))
            self.seat_all()

    # ---- feeding -----------------------------------------------------------------------------------------

    def handle(self, *events: Event) -> list[Command]:
        for event in events:
            self.scheduler.handle(event, self.now)
        return self.drain()

    def say(self, *messages: ClientMessage, client: ClientId = ANNA) -> list[Command]:
        for message in messages:
            self.scheduler.client_message(client, message, self.now)
        return self.drain()

    def tell(self, engine: EngineId, *messages: EngineMessage) -> list[Command]:
        for message in messages:
            self.scheduler.engine_message(engine, message, self.now)
        return self.drain()

    def drain(self) -> list[Command]:
        self.commands = self.scheduler.drain(self.now)
        check(self.scheduler)
        return self.commands

    def wait(self, seconds: float) -> list[Command]:
        self.now += seconds
        return self.drain()

    # ---- common things -----------------------------------------------------------------------------------

    def attach(self, client: ClientId = ANNA, lease_s: float = 60.0, engine: EngineId | None = None) -> list[Command]:
        self.handle(ClientAttached(client=client, lease_s=lease_s, engine=engine))
        attached = self.commands
        self.say(
            DefineFunction(digest=F, code=b"code of f", name="f"),
            DefineFunction(digest=G, code=b"code of g", name="g"),
            client=client,
        )
        return attached

    def seat_all(self, commands: Iterable[Command] | None = None) -> list[Command]:
        """Let all engines attach that were asked for by these, or else by the last commands."""
        started = of(self.commands if commands is None else commands, StartEngine)
        return self.handle(*(EngineAttached(engine=e.engine, rank=e.rank, pid=1000 + e.engine) for e in started))

    def submit(
        self,
        *numbers: int,
        client: ClientId = ANNA,
        function: bytes = F,
        deps: Sequence[int] = (),
        parent: TaskId | None = None,
        options: TaskOptions = DEFAULT_OPTIONS,
        refs: Sequence[int] = (),
    ) -> list[Command]:
        calls = [Call(task(number, client), b"args", tuple(deps), tuple(refs)) for number in numbers]
        return self.say(Submit(function=function, calls=calls, parent=parent, options=options), client=client)

    def pin(
        self, number: int, ranks: Iterable[Rank], *, deps: Sequence[int] = (), parent: TaskId | None = None
    ) -> list[Command]:
        first = task(number)
        return self.say(
            SubmitPinned(function=F, first=first, ranks=list(ranks), args=[b"args"], deps=tuple(deps), parent=parent)
        )

    def done(
        self,
        engine: EngineId,
        *tasks: TaskId,
        run_s: float = 0.001,
        value: bytes = b"value",
        outcome: Outcome = Outcome.OK,
    ) -> list[Command]:
        sequence = self.sequences[engine] = self.sequences.get(engine, 0) + 1
        results = [Result(id_, value, outcome) for id_ in tasks]
        return self.tell(engine, Done(sequence=sequence, results=results, run_s=run_s * len(tasks)))

    def answer(self, engine: EngineId, *results: Result, run_s: float = 0.2) -> list[Command]:
        """As `done`, with whole results."""
        sequence = self.sequences[engine] = self.sequences.get(engine, 0) + 1
        return self.tell(engine, Done(sequence=sequence, results=list(results), run_s=run_s))

    def blocks(self) -> tuple[list[BlockId], list[BlockId]]:
        """Which blocks the last commands keep, and which they free."""
        kept = [block for command in of(self.commands, KeepBlocks) for block in command.blocks]
        return kept, [block for command in of(self.commands, FreeBlocks) for block in command.blocks]

    def exit(self, engine: EngineId, exit_code: int | None = -9, last_output: str = "") -> list[Command]:
        return self.handle(EngineExited(engine=engine, exit_code=exit_code, last_output=last_output))

    def recalled(self, engine: EngineId, position: int, until: int) -> list[Command]:
        return self.tell(engine, Recalled(position=position, until=until))

    def acknowledge(self, sequence: int, client: ClientId = ANNA) -> list[Command]:
        return self.say(Acknowledge(sequence=sequence), client=client)

    def learn(self, run_s: float, function: bytes = F, number: int = 900_000) -> None:
        """Let the scheduler know how long a function takes."""
        self.submit(number, function=function)
        engine = next(engine for engine, run in self.runs() if run.calls[0].id == task(number))
        self.done(engine, task(number), run_s=run_s)
        self.acknowledge(1_000_000)

    def engine(self, rank: Rank) -> EngineId:
        """The engine that a rank has now."""
        return board_of(self.scheduler).engine_of(rank).id

    # ---- looking -----------------------------------------------------------------------------------------

    def status(self) -> Status:
        self.say(StatusRequest(request=1))
        return self.told(ANNA, Status)[-1]

    def told(self, client: ClientId, kind: type[M]) -> list[M]:
        """Messages of a kind that the last commands have for a client."""
        commands = of(self.commands, TellClient)
        return [c.message for c in commands if c.client == client and isinstance(c.message, kind)]

    def sent(self, kind: type[M]) -> list[tuple[EngineId, M]]:
        """Messages of a kind that the last commands have for engines."""
        return [(c.engine, c.message) for c in of(self.commands, TellEngine) if isinstance(c.message, kind)]

    def runs(self) -> list[tuple[EngineId, Run]]:
        return self.sent(Run)

    def calls(self) -> dict[EngineId, list[TaskId]]:
        """Which calls the last commands send where."""
        calls: dict[EngineId, list[TaskId]] = {}
        for engine, run in self.runs():
            calls.setdefault(engine, []).extend(call.id for call in run.calls)
        return calls

    def results(self, client: ClientId = ANNA) -> dict[TaskId, tuple[Outcome, bytes]]:
        """What the last commands deliver."""
        return {
            result.id: (result.outcome, result.value)
            for deliver in self.told(client, Deliver)
            for result in deliver.results
        }

    def kills(self) -> list[EngineId]:
        return [command.engine for command in of(self.commands, KillEngine)]

    def starts(self) -> list[Rank]:
        return [command.rank for command in of(self.commands, StartEngine)]


def of(commands: Iterable[Command], kind: type[M]) -> list[M]:
    return [command for command in commands if isinstance(command, kind)]
