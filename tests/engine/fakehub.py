"""A hub for tests of engines and nodes: it greets everybody, sends what the test says and keeps what it hears."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from fibernb import serialize
from fibernb.core.messages import (
    ActorExits,
    ActorRecord,
    Checkpoint,
    CreateActor,
    Display,
    Done,
    Message,
    Output,
    Progress,
    Recalled,
    Run,
    Started,
)
from fibernb.model import DEFAULT_OPTIONS, ActorOptions, Call, EngineId, Result, TaskId, TaskOptions
from fibernb.transport import Listener, Peer, listen
from fibernb.wire import codec
from fibernb.wire.handshake import (
    ControlHello,
    EngineHello,
    Fork,
    ForkFailed,
    MemoryShort,
    NodeHello,
    ProcessExited,
    Seat,
    StoreEnded,
    Welcome,
)

PATIENCE_S = 20.0
DEFAULT_ACTOR = ActorOptions()
WELCOME = Welcome(cluster="test", version="0", hub_pid=1)


class NotThere:
    """Stands for the class of references where a test has none."""


class FakeHub:
    """Listens at an address, and plays the hub for one test."""

    def __init__(self, address: str) -> None:
        self.listener: Listener = listen(address)
        self.node: Peer | None = None
        self.node_hello: NodeHello | None = None
        self.hellos: dict[EngineId, EngineHello] = {}
        self.controls: dict[EngineId, Peer] = {}
        self.datas: dict[EngineId, Peer] = {}
        self.results: dict[TaskId, Result] = {}
        self.dones: list[tuple[EngineId, Done]] = []
        self.said: list[Output | Display | Progress] = []
        self.heard: list[Message] = []  # in order, of all engines
        self.recalled: list[Recalled] = []
        self.checkpoints: list[Checkpoint] = []
        self.actor_exits: list[ActorExits] = []
        self.exits: dict[EngineId, ProcessExited] = {}
        self.failed: list[ForkFailed] = []
        self.told: list[StoreEnded | MemoryShort] = []
        self.positions: dict[EngineId, int] = {}
        self.dones_at_hello: dict[EngineId, int] = {}
        self._engines: dict[Peer, EngineId] = {}
        self._tasks = itertools.count(1)
        self._known: set[tuple[EngineId, bytes]] = set()

    # ---- hearing -----------------------------------------------------------------------------------------

    def wait(self, condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> None:
        """Take in messages until the condition holds."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout_s} s; heard at last: {self.heard[-5:]}")
            for peer, data in self.listener.poll(0.05):
                self._take(peer, data)

    def settle(self, seconds: float) -> None:
        """Take in what comes during a short while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for peer, data in self.listener.poll(0.01):
                self._take(peer, data)

    def _take(self, peer: Peer, data: bytes | None) -> None:
        if data is None:
            if peer == self.node:
                self.node = None
            return
        if peer == self.node:
            self._take_from_node(codec.from_node.decode(data))
        elif peer in self._engines:
            self._take_from_engine(self._engines[peer], codec.from_engine.decode(data))
        else:
            self._greet(peer, codec.hello.decode(data))

    def _greet(self, peer: Peer, hello: Any) -> None:
        self.listener.limit(peer, codec.MAX_MESSAGE_BYTES)
        if isinstance(hello, NodeHello):
            self.node, self.node_hello = peer, hello
        elif isinstance(hello, ControlHello):
            self.controls[hello.engine] = peer
            self._engines[peer] = hello.engine
        elif isinstance(hello, EngineHello):
            self.hellos[hello.engine] = hello
            self.datas[hello.engine] = peer
            self._engines[peer] = hello.engine
            self.positions[hello.engine] = hello.received
            self.dones_at_hello[hello.engine] = len(self.dones)
        self.listener.send(peer, codec.encode(WELCOME))

    def _take_from_node(self, message: Any) -> None:
        if isinstance(message, ForkFailed):
            self.failed.append(message)
        elif isinstance(message, ProcessExited):
            self.exits[message.engine] = message
        else:
            self.told.append(message)

    def _take_from_engine(self, engine: EngineId, message: Any) -> None:
        if not isinstance(message, Started):
            self.heard.append(message)
        if isinstance(message, Done):
            self.dones.append((engine, message))
            self.results.update((result.id, result) for result in message.results)
        elif isinstance(message, Recalled):
            self.recalled.append(message)
        elif isinstance(message, Checkpoint):
            self.checkpoints.append(message)
        elif isinstance(message, ActorExits):
            self.actor_exits.append(message)
        elif isinstance(message, Output | Display | Progress):
            self.said.append(message)

    # ---- speaking ----------------------------------------------------------------------------------------

    def tell_node(self, message: Message) -> None:
        assert self.node is not None
        self.listener.send(self.node, codec.encode(message))

    def control(self, engine: EngineId, message: Message) -> None:
        self.listener.send(self.controls[engine], codec.encode(message))

    def fork(self, engines: Sequence[EngineId]) -> None:
        """Have engines forked, each under the rank of its number, and wait until they have attached."""
        self.wait(lambda: self.node is not None)
        self.tell_node(Fork(seats=[Seat(engine=engine, rank=engine) for engine in engines]))
        self.wait(lambda: all(engine in self.hellos for engine in engines))

    def send(
        self,
        engine: EngineId,
        function: Callable[..., Any],
        *argument_lists: tuple[Any, ...],
        options: TaskOptions = DEFAULT_OPTIONS,
        inputs: Sequence[Result] = (),
        deps: tuple[int, ...] = (),
        forget: int = 0,
    ) -> list[TaskId]:
        """Send calls; their task numbers."""
        digest, code = serialize.dumps_function(function)
        calls = [Call(next(self._tasks), serialize.dumps_call(args, {}, NotThere)[0], deps) for args in argument_lists]
        position = self.positions[engine]
        run = Run(
            function=digest,
            calls=calls,
            position=position,
            code=None if (engine, digest) in self._known else code,
            options=options,
            inputs=list(inputs),
            forget=forget,
        )
        self._known.add((engine, digest))
        self.positions[engine] = position + len(calls)
        self.listener.send(self.datas[engine], codec.encode(run))
        return [call.id for call in calls]

    def create(
        self,
        engine: EngineId,
        kind: type,
        *args: Any,
        options: ActorOptions = DEFAULT_ACTOR,
        restarts: int = 0,
        checkpoint: bytes | None = None,
        gpus: tuple[int, ...] = (),
    ) -> TaskId:
        """Make an actor; its number."""
        digest, code = serialize.dumps_function(kind)
        actor = next(self._tasks)
        pickled = serialize.dumps_call(args, {}, NotThere)[0]
        create = CreateActor(actor=actor, function=digest, args=pickled, options=options)
        record = ActorRecord(create=create, code=code, restarts=restarts, checkpoint=checkpoint)
        position = self.positions[engine]
        self.positions[engine] += 1
        run = Run(function=digest, calls=[Call(actor, pickled)], position=position, actor=record, gpus=gpus)
        self.listener.send(self.datas[engine], codec.encode(run))
        return actor

    def call(self, engine: EngineId, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Run one call; its value, or its exception raised."""
        (task,) = self.send(engine, function, args, **options)
        return self.value(task)

    def value(self, task: TaskId) -> Any:
        self.wait(lambda: task in self.results)
        result = self.results[task]
        if result.outcome:
            raise serialize.loads_error(result.value)
        return serialize.loads(result.value)

    def text(self, task: TaskId | None = None, stream: str | None = None) -> str:
        """What was printed, by that task or all."""
        return "".join(
            said.text
            for said in self.said
            if isinstance(said, Output) and task in (None, said.task) and stream in (None, said.stream)
        )

    def close(self) -> None:
        self.listener.close()
