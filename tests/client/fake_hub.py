"""A hub within this process: it answers clients over the memory transport and runs their calls in its own thread."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from fibernb import serialize, transport
from fibernb.client.dialing import Opened
from fibernb.core import messages as m
from fibernb.engine import context
from fibernb.engine.context import CellContext
from fibernb.errors import FibernbError, NotConnected
from fibernb.model import STREAMING, ClientId, EngineId, Outcome, Result, TaskId
from fibernb.transport import Link, Peer
from fibernb.wire import codec
from fibernb.wire.direct import DoorHello
from fibernb.wire.handshake import Credentials, Welcome

_numbers: Final = itertools.count(1)


class FakeCells:
    """The namespace of a rank; runs cells of one expression, or of statements."""

    def __init__(self, rank: int) -> None:
        self.namespace: dict[str, Any] = {"rank": rank}

    def run(self, source: str, cell: CellContext, task: TaskId = 0) -> Any:
        try:
            code = compile(source, cell.filename, "eval")
        except SyntaxError:
            exec(compile(source, cell.filename, "exec"), self.namespace)
            return None
        return eval(code, self.namespace)


class FakeHub:
    """Answers calls at once, in order, unless ``hold`` is set. What came in stands in ``heard``.

    ``forget`` plays a hub that was killed and started again: it drops every link and knows nothing any more.
    """

    def __init__(self, seats: int = 2) -> None:
        self.address = f"memory:fake-hub-{next(_numbers)}"
        self.heard: list[m.Message] = []
        self.hold = False
        self.deaf = False  # swallows what comes in
        self.fresh = True
        self.seats = seats
        self.problem = ""
        self.cells: dict[int, FakeCells] = {}
        self.acknowledged = 0
        self.holds: set[int] = set()
        self.actors: dict[int, Any] = {}
        self.names: dict[str, tuple[int, bytes]] = {}
        self.remade: dict[int, Result] = {}  # what is delivered once blocks are said to be lost
        self.store: FakeStore | None = None
        self.lent: EngineId = 0  # the engine that clients may send calls to themselves
        self.keeps = False  # values that were released
        self._lock = threading.RLock()
        self._listener = transport.listen(self.address)
        self._functions: dict[bytes, Callable[..., Any]] = {}
        self._objects: dict[int, Result] = {}
        self._known: set[TaskId] = set()
        self._held: list[tuple[Peer, Callable[[], Result]]] = []
        self._sequence = 0
        self._clients: list[Peer] = []
        self._dropped: set[Peer] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def of(self, kind: type[m.Message]) -> list[Any]:
        """The messages of one kind that have come in."""
        with self._lock:
            return [message for message in self.heard if type(message) is kind]

    def release_held(self) -> None:
        """Answer what was held back, and hold nothing more."""
        with self._lock:
            self.hold = False
            held, self._held = self._held, []
            for _, answer in held:
                self._deliver(self._clients[-1], [answer()])

    def say(self, message: m.Message) -> None:
        """Send a message to every client."""
        with self._lock:
            for peer in self._clients:
                self._send(peer, message)

    def break_links(self, fresh: bool = False) -> None:
        """Drop every link; ``fresh``: forget everything, as a hub that was killed."""
        with self._lock:
            self.fresh = fresh
            for peer in self._clients:
                self._listener.drop(peer)
            self._dropped.update(self._clients)
            self._clients.clear()
            if fresh:
                self._functions.clear()
                self._objects.clear()
                self._known.clear()
                self._held.clear()
                self._sequence = 0

    def close(self) -> None:
        self._stopping = True
        self._listener.wake()
        self._thread.join(5)
        self._listener.close()

    def _serve(self) -> None:
        while not self._stopping:
            arrivals = self._listener.poll(None)
            with self._lock:
                for peer, data in arrivals:
                    if data is not None and peer not in self._dropped:
                        self._hear(peer, data)

    def _hear(self, peer: Peer, data: bytes) -> None:
        if peer not in self._clients:
            hello: Any = codec.hello.decode(data)
            self._listener.limit(peer, codec.MAX_MESSAGE_BYTES)
            self._clients.append(peer)
            self._send(peer, Welcome(cluster="fake", version="0", hub_pid=0, max_seats=64, limit="a test says so"))
            if hello.resumes:
                self._send(peer, m.Recovered(fresh=self.fresh))
            self._send(peer, m.SeatsChanged(seats=self.seats, ready=self.seats, starting=0))
            return
        message: Any = codec.from_client.decode(data)
        self.heard.append(message)
        if not self.deaf:
            getattr(self, f"_on_{type(message).__name__.lower()}", self._ignore)(peer, message)

    def _ignore(self, peer: Peer, message: m.Message) -> None:
        pass

    def _on_definefunction(self, peer: Peer, message: m.DefineFunction) -> None:
        self._functions[message.digest] = serialize.loads_function(message.code)

    def _on_submit(self, peer: Peer, message: m.Submit | m.CallActor) -> None:
        fresh = [call for call in message.calls if call.id not in self._known]
        self._known.update(call.id for call in fresh)
        returns = message.options.num_returns
        if returns == STREAMING:
            fresh = []  # tests play the engine
        answers = [partial(self._run, message.function, call.id, call.args, call.deps, returns) for call in fresh]
        if self.hold:
            self._held += [(peer, answer) for answer in answers]
        elif answers:
            self._deliver(peer, [answer() for answer in answers])

    def _on_submitpinned(self, peer: Peer, message: m.SubmitPinned) -> None:
        for offset in range(len(message.ranks)):
            args = message.args[offset % len(message.args)]

            def answer(offset: int = offset, args: bytes = args) -> Result:
                context.enter(self._engine(message.ranks[offset], message.first + offset))
                try:
                    return self._run(message.function, message.first + offset, args, message.deps, 1)
                finally:
                    context.enter(None)

            if self.hold:
                self._held.append((peer, answer))
            else:
                self._deliver(peer, [answer()])

    def _engine(self, rank: int, task: TaskId) -> context.EngineContext:
        return context.EngineContext(
            rank=rank,
            engine=rank,
            directory="/nowhere",
            cells=self.cells.setdefault(rank, FakeCells(rank)),
            current_task=lambda: task,
        )

    def _on_hold(self, peer: Peer, message: m.Hold) -> None:
        self.holds.update(message.objects)

    def _on_fetch(self, peer: Peer, message: m.Fetch) -> None:
        for id_ in message.objects:
            if message.lost and id_ in self.remade:
                self._objects[id_] = self.remade[id_]
        there = [self._objects[id_] for id_ in message.objects if id_ in self._objects]
        if there:
            self._deliver(peer, there)

    def _on_sync(self, peer: Peer, message: m.Sync) -> None:
        self._send(peer, m.Synced(request=message.request))

    def _on_createactor(self, peer: Peer, message: m.CreateActor) -> None:
        name = message.options.name
        taken = self.names.get(name) if name else None
        if taken is not None and taken[0] != message.actor:
            found = taken if message.get_if_exists else (0, b"")
            problem = "" if message.get_if_exists else f"the name {name!r} is taken"
            self._send(peer, m.ActorFound(request=message.request, actor=found[0], about=found[1], problem=problem))
            return
        positional, named = serialize.loads_call(message.args, [self._load(dep) for dep in message.deps])
        self.actors[message.actor] = self._functions[message.function](*positional, **named)
        self._objects[message.actor] = Result(message.actor, serialize.dumps(None))
        if name:
            self.names[name] = (message.actor, message.about)
            self._send(peer, m.ActorFound(request=message.request, actor=message.actor, about=message.about))

    def _on_callactor(self, peer: Peer, message: m.CallActor) -> None:
        method = serialize.loads(message.function)
        self._functions[message.function] = getattr(self.actors[message.actor], getattr(method, "name", method))
        self._on_submit(peer, message)

    def _on_meet(self, peer: Peer, message: m.Meet) -> None:
        self._send(peer, m.Met(request=message.request, engine=self.lent))

    def _on_findactor(self, peer: Peer, message: m.FindActor) -> None:
        actor, about = self.names.get(message.name, (0, b""))
        problem = "" if actor else f"no actor is named {message.name!r}"
        self._send(peer, m.ActorFound(request=message.request, actor=actor, about=about, problem=problem))

    def _on_creategroup(self, peer: Peer, message: m.CreateGroup) -> None:
        self._objects[message.group] = Result(message.group, serialize.dumps(None))

    def _on_staterequest(self, peer: Peer, message: m.StateRequest) -> None:
        rows = [{"kind": message.kind, **message.where}]
        self._send(peer, m.State(request=message.request, rows=json.dumps(rows).encode(), total=5))

    def _on_putobjects(self, peer: Peer, message: m.PutObjects) -> None:
        self._objects.update((value.id, value) for value in message.objects)

    def _on_release(self, peer: Peer, message: m.Release) -> None:
        for id_ in () if self.keeps else message.objects:
            self._objects.pop(id_, None)

    def _on_acknowledge(self, peer: Peer, message: m.Acknowledge) -> None:
        self.acknowledged = message.sequence

    def _on_scale(self, peer: Peer, message: m.Scale) -> None:
        self.seats = message.seats
        self._send(peer, m.SeatsChanged(seats=self.seats, ready=self.seats, starting=0))

    def _on_cancel(self, peer: Peer, message: m.Cancel) -> None:
        from fibernb.errors import TaskCancelled

        value = serialize.dumps_error(TaskCancelled("cancelled"), "")
        self._deliver(peer, [Result(task, value, Outcome.CANCELLED) for task in message.tasks])

    def _on_statusrequest(self, peer: Peer, message: m.StatusRequest) -> None:
        self._send(
            peer,
            m.Status(
                request=message.request,
                seats=self.seats,
                ready=self.seats,
                busy=0,
                starting=0,
                waiting=0,
                queued=0,
                running=0,
                finished=0,
                failed=0,
                refused=0,
                engines=[],
                clients=1,
                pending=[],
                problem=self.problem,
            ),
        )

    def _run(self, function: bytes, id_: TaskId, args: bytes, deps: tuple[int, ...], returns: int) -> Result:
        try:
            inputs = [self._load(dep) for dep in deps]
            positional, named = serialize.loads_call(args, inputs)
            value = self._functions[function](*positional, **named)
            values = [serialize.dumps(item) for item in (value if returns > 1 else [value])]
        except Exception as error:
            result = Result(id_, serialize.dumps_error(error, "Traceback of the fake hub"), Outcome.ERROR)
        else:
            more = tuple(Result(id_ + offset, data) for offset, data in enumerate(values[1:], 1))
            result = Result(id_, values[0], more=more)
            self._objects.update((part.id, part) for part in (result, *more))
        return result

    def _load(self, id_: int) -> Any:
        return serialize.loads(self._objects[id_].value, self.store)

    def deliver(self, results: list[Result]) -> None:
        """Send results to the client that came last, as if it had asked for them."""
        with self._lock:
            self._deliver(self._clients[-1], results)

    def keep(self, id_: int, value: Any) -> None:
        """An object that somebody else has made."""
        with self._lock:
            self._objects[id_] = Result(id_, serialize.dumps(value))

    def _deliver(self, peer: Peer, results: list[Result]) -> None:
        self._sequence += 1
        self._send(peer, m.Deliver(sequence=self._sequence, results=results))

    def _send(self, peer: Peer, message: m.Message) -> None:
        self._listener.send(peer, codec.encode(message))


class FakeStore:
    """A host's object store within this process."""

    inline_bytes = 1000

    def __init__(self) -> None:
        self.blocks: dict[int, bytes] = {}
        self._next = itertools.count(1)

    def prepare(self, after_s: float) -> None:
        """It is ready."""

    def outlives(self, blocks: Sequence[int]) -> bool:
        return all(block in self.blocks for block in blocks)

    def write(self, buffers: Sequence[memoryview]) -> tuple[int, list[int]]:
        block, data, offsets = next(self._next), b"", []
        for buffer in buffers:
            data += bytes(-len(data) % 64)
            offsets.append(len(data))
            data += bytes(buffer)
        self.blocks[block] = data
        return block, offsets

    def map(self, block: int) -> memoryview:
        if block not in self.blocks:
            raise serialize.BlockGone([block])
        return memoryview(self.blocks[block])


class FakeConnector:
    """Dials a fake hub. ``gone``: as if its cluster had ended."""

    name = "fake"
    directory = None

    def __init__(self, hub: FakeHub) -> None:
        self._hub = hub
        self.gone = False
        self.left = False
        self.reconnects = 0
        self.doors: dict[EngineId, str] = {}  # addresses

    def connect(self) -> Opened:
        return self._open(7, resumes=False)

    def reconnect(self, client: ClientId) -> Opened:
        self.reconnects += 1
        if self.gone:
            raise NotConnected("cluster fake is gone: it has ended")
        return self._open(client, resumes=True)

    def store(self, client: ClientId) -> FakeStore | None:
        return self._hub.store

    def dial_engine(self, engine: EngineId) -> Link:
        link = transport.dial(self.doors[engine])
        link.send(codec.encode(DoorHello(credentials=Credentials(key="", version=""))))
        return link

    def leave(self) -> None:
        self.left = True

    def _open(self, client: ClientId, resumes: bool) -> Opened:
        from fibernb.client.dialing import say_hello
        from fibernb.wire.handshake import ClientHello

        hello = ClientHello(
            credentials=Credentials(key="", version=""), client=client, instance="i", lease_s=1.0, resumes=resumes
        )
        opened = say_hello(self._hub.address, hello)
        if opened is None:
            raise FibernbError("the number is taken")
        return opened
