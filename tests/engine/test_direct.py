"""Calls that a client sends to an engine itself; the test is the client, and plays the hub."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cloudpickle import register_pickle_by_value

from fibernb import serialize
from fibernb.core.messages import EndActor, Interrupt, OpenDoor, Ran, Run
from fibernb.engine.actors import Method, exit_actor
from fibernb.errors import NotConnected, TaskCancelled
from fibernb.model import ActorOptions, Call, Outcome, Result, TaskId
from fibernb.transport import dial
from fibernb.wire import codec
from fibernb.wire.admission import credentials
from fibernb.wire.direct import DOOR, Answered, AskHub, DoorHello, DoorIsOpen, DoorIsShut, from_door
from tests.engine.conftest import NodeProcess
from tests.engine.fakehub import NotThere

register_pickle_by_value(sys.modules[__name__])  # engines cannot import it

ENGINE = 3
made: list[Client] = []
MINE, OTHERS = 5 << 40, 6 << 40  # ids of two clients


class Client:
    """Somebody at the door of an engine."""

    def __init__(self, node: NodeProcess, key: str = "key", first: TaskId = MINE) -> None:
        self._link = dial(f"unix:{node.directory}/{DOOR.format(engine=ENGINE)}", 20.0)
        self._link.send(codec.encode(DoorHello(credentials=credentials(key))))
        self.next_id = first
        made.append(self)

    def hear(self) -> Any:
        answers = self._link.receive(20.0)
        assert answers, "the engine says nothing"
        return from_door.decode(answers[0])

    def send(self, function: Any, *args: Any) -> TaskId:
        self.next_id += 1
        self._link.send(codec.encode(one_call(function, self.next_id, *args)))
        return self.next_id

    def ask(self, function: Any, *args: Any) -> Any:
        """The value of a call that is answered at the door."""
        task = self.send(function, *args)
        answer = self.hear()
        assert isinstance(answer, Answered), answer
        assert answer.result.id == task
        return serialize.loads(answer.result.value)

    def send_raw(self, data: bytes) -> None:
        self._link.send(data)

    def leave(self) -> None:
        self._link.close()


def one_call(function: Any, task: TaskId, *args: Any, position: int = 0) -> Run:
    if isinstance(function, str):
        digest, code = serialize.dumps(Method(function)), serialize.dumps_function(Method(function))[1]
    else:
        digest, code = serialize.dumps_function(function)
    pickled = serialize.dumps_call(args, {}, NotThere)[0]
    return Run(function=digest, calls=[Call(task, pickled)], position=position, code=code)


def as_hub(node: NodeProcess, function: Any, task: TaskId, *args: Any) -> None:
    """The hub sends the same call."""
    hub = node.hub
    run = one_call(function, task, *args, position=hub.positions[ENGINE])
    hub.positions[ENGINE] += 1
    hub.listener.send(hub.datas[ENGINE], codec.encode(run))


def open_door(node: NodeProcess) -> None:
    node.hub.listener.send(node.hub.datas[ENGINE], codec.encode(OpenDoor()))
    path = node.directory / DOOR.format(engine=ENGINE)
    node.hub.wait(path.exists)


@pytest.fixture(autouse=True)
def _leaving() -> Iterator[None]:
    yield
    while made:
        made.pop().leave()


@pytest.fixture
def engine(node: NodeProcess) -> NodeProcess:
    node.hub.fork([ENGINE])
    open_door(node)
    return node


@pytest.fixture
def client(engine: NodeProcess) -> Client:
    client = Client(engine)
    assert isinstance(client.hear(), DoorIsOpen)
    return client


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, amount: int = 1) -> int:
        self.count += amount
        return self.count

    def leave(self) -> None:
        exit_actor()


class AsyncCounter:
    def __init__(self) -> None:
        self.count = 0

    async def add(self, amount: int = 1) -> int:
        self.count += amount
        return self.count


def make(node: NodeProcess, kind: type, **options: Any) -> None:
    node.hub.value(node.hub.create(ENGINE, kind, options=ActorOptions(**options)))


def report_of(node: NodeProcess) -> Callable[[], list[TaskId]]:
    return lambda: [task for message in node.hub.heard if isinstance(message, Ran) for task in message.tasks]


def double(x: int) -> int:
    return 2 * x


def test_small_values_are_answered_and_reported(engine: NodeProcess, client: Client) -> None:
    assert [client.ask(double, x) for x in range(50)] == [2 * x for x in range(50)]
    reported = report_of(engine)
    engine.hub.wait(lambda: len(reported()) == 50)
    assert reported() == list(range(MINE + 1, MINE + 51))
    assert not engine.hub.dones


def test_a_stranger_is_sent_away(engine: NodeProcess) -> None:
    with pytest.raises(NotConnected):
        Client(engine, key="wrong").hear()
    other = Client(engine)
    assert isinstance(other.hear(), DoorIsOpen)
    other.send_raw(b"nonsense")
    with pytest.raises(NotConnected):
        other.hear()
    third = Client(engine)
    assert isinstance(third.hear(), DoorIsOpen)
    assert third.ask(double, 4) == 8


def fail(text: str) -> None:
    raise ValueError(text)


def speak(text: str) -> int:
    print(text)
    return 1


def large() -> bytes:
    return b"x" * 100_000


@pytest.mark.parametrize(("function", "args"), [(fail, ("wrong",)), (speak, ("a line",)), (large, ())])
def test_what_is_more_than_a_small_value_waits_for_the_hub(
    engine: NodeProcess, client: Client, tmp_path: Path, function: Any, args: tuple[Any, ...]
) -> None:
    task = client.send(function, *args)
    assert client.hear() == AskHub(task=task)
    as_hub(engine, function, task, *args)
    engine.hub.wait(lambda: task in engine.hub.results)
    result = engine.hub.results[task]
    assert result.outcome is (Outcome.ERROR if function is fail else Outcome.OK)
    if function is speak:
        order = [message for message in engine.hub.heard if not isinstance(message, Ran)]
        assert engine.hub.text(task) == "a line\n"
        assert order.index(engine.hub.said[0]) < order.index(engine.hub.dones[0][1])


def test_a_call_that_the_hub_sends_too_is_not_run_again(engine: NodeProcess, client: Client) -> None:
    make(engine, Counter)
    assert client.ask("add") == 1
    as_hub(engine, "add", client.next_id)
    engine.hub.wait(lambda: client.next_id in engine.hub.results)
    assert serialize.loads(engine.hub.results[client.next_id].value) == 1
    assert client.ask("add") == 2


def test_the_hubs_copy_of_a_call_that_waits_at_the_door(engine: NodeProcess, client: Client, tmp_path: Path) -> None:
    make(engine, Counter)
    gate = tmp_path / "gate"
    (blocking,) = engine.hub.send(ENGINE, Method("__ray_call__"), (wait_for(gate),))
    task = client.send("add")
    as_hub(engine, "add", task)
    gate.touch()
    assert engine.hub.value(blocking) == 0
    assert engine.hub.value(task) == 1
    assert isinstance(client.hear(), Answered)
    assert client.ask("add") == 2


def wait_for(gate: Path) -> Callable[[Any], int]:
    def wait(actor: Any) -> int:
        while not gate.exists():
            time.sleep(0.01)
        return int(actor.count)

    return wait


def test_what_the_hub_has_sent_goes_first_unless_it_is_of_the_same_client(
    engine: NodeProcess, client: Client, tmp_path: Path
) -> None:
    make(engine, Counter)
    gate = tmp_path / "gate"
    (blocking,) = engine.hub.send(ENGINE, Method("__ray_call__"), (wait_for(gate),))
    as_hub(engine, "add", OTHERS + 1, 10)
    client.send("add", 1)
    as_hub(engine, "add", client.next_id + 1, 100)
    gate.touch()
    engine.hub.value(blocking)
    assert engine.hub.value(OTHERS + 1) == 10
    answer = client.hear()
    assert serialize.loads(answer.result.value) == 11
    assert engine.hub.value(client.next_id + 1) == 111


def test_other_work_shuts_the_door_of_a_seat(engine: NodeProcess, client: Client) -> None:
    assert client.ask(double, 1) == 2
    assert engine.hub.call(ENGINE, double, 4) == 8
    assert isinstance(client.hear(), DoorIsShut)
    engine.hub.wait(lambda: not (engine.directory / DOOR.format(engine=ENGINE)).exists())
    open_door(engine)
    again = Client(engine)
    assert isinstance(again.hear(), DoorIsOpen)
    assert again.ask(double, 5) == 10


def test_an_asyncio_actor(engine: NodeProcess, client: Client) -> None:
    engine.hub.call(ENGINE, double, 0)  # another door, which is opened in the event loop
    make(engine, AsyncCounter, is_async=True, max_concurrency=100)
    open_door(engine)
    inside = Client(engine)
    assert isinstance(inside.hear(), DoorIsOpen)
    assert [inside.ask("add") for _ in range(20)] == list(range(1, 21))
    as_hub(engine, "add", inside.next_id)
    assert engine.hub.value(inside.next_id) == 20
    assert inside.ask("add") == 21


def test_an_interrupt_before_it_begins(engine: NodeProcess, client: Client, tmp_path: Path) -> None:
    make(engine, Counter)
    gate = tmp_path / "gate"
    (blocking,) = engine.hub.send(ENGINE, Method("__ray_call__"), (wait_for(gate),))
    task = client.send("add")
    as_hub(engine, "add", task)
    engine.hub.control(ENGINE, Interrupt(task=task))
    engine.hub.settle(0.2)
    gate.touch()
    engine.hub.value(blocking)
    with pytest.raises(TaskCancelled):
        engine.hub.value(task)
    assert client.hear() == AskHub(task=task)
    assert client.ask("add") == 1


def test_a_call_that_ends_its_actor(engine: NodeProcess, client: Client) -> None:
    make(engine, Counter)
    task = client.send("leave")
    assert client.hear() == AskHub(task=task)
    engine.hub.wait(lambda: engine.hub.actor_exits)
    later = client.send("add")
    assert client.hear() == AskHub(task=later)


def test_an_engine_that_leaves_says_so(engine: NodeProcess, client: Client) -> None:
    make(engine, Counter)
    assert client.ask("add") == 1
    engine.hub.control(ENGINE, EndActor())
    assert isinstance(client.hear(), DoorIsShut)
    engine.hub.wait(lambda: ENGINE in engine.hub.exits)


def test_a_process_that_a_task_forks_does_not_hold_the_door(engine: NodeProcess, client: Client) -> None:
    make(engine, Counter)

    def fork(_: Any) -> int:
        child = os.fork()
        if not child:
            time.sleep(60)
            os._exit(0)
        return child

    child = client.ask("__ray_call__", fork)
    os.kill(node_pid(engine), 9)
    with pytest.raises(NotConnected):
        client.hear()
    os.kill(child, 9)


def node_pid(node: NodeProcess) -> int:
    return node.hub.hellos[ENGINE].pid


def test_a_new_hub_is_told_what_calls_came_to(engine: NodeProcess, client: Client) -> None:
    make(engine, Counter)
    assert client.ask("add") == 1
    hub = engine.hub
    hub.hellos.clear()
    for peer in (hub.datas[ENGINE], hub.controls[ENGINE]):
        hub.listener.drop(peer)
    hub.wait(lambda: ENGINE in hub.hellos and client.next_id in hub.results)
    assert hub.results[client.next_id] == Result(client.next_id, serialize.dumps(1))
    assert client.ask("add") == 2
