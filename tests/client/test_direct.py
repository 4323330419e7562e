"""Calls that go straight to an engine: the client's side, with a door that does what the test says."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fibernb as fnb
from fibernb import serialize, transport
from fibernb.client import direct
from fibernb.client.session import Session
from fibernb.core import messages as m
from fibernb.errors import GetTimeout, NotConnected
from fibernb.model import Outcome, Result
from fibernb.transport import Peer
from fibernb.wire import codec
from fibernb.wire.direct import Answered, AskHub, DoorHello, DoorIsOpen, DoorIsShut, to_door
from tests.client.fake_hub import FakeConnector, FakeHub
from tests.client.test_session import wait_until

ENGINE = 5


class FakeDoor:
    """Answers calls with the sum of their arguments, unless ``answer`` tells otherwise."""

    def __init__(self, address: str) -> None:
        self.heard: list[m.Run] = []
        self.answer: Callable[[m.Run], m.Message | None] = self.add
        self._listener = transport.listen(address)
        self._peers: set[Peer] = set()
        self._hang_up = self._leaving = self._stopping = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def add(self, run: m.Run) -> m.Message:
        (call,) = run.calls
        args, _ = serialize.loads_call(call.args, ())
        return Answered(result=Result(call.id, serialize.dumps(sum(args))))

    def die(self, run: m.Run) -> None:
        self._hang_up = True

    def leave(self) -> None:
        """Hang up on everybody."""
        self._leaving = True
        self._listener.wake()
        wait_until(lambda: not self._leaving)

    def close(self) -> None:
        self._stopping = True
        self._listener.wake()
        self._thread.join(5)
        self._listener.close()

    def _serve(self) -> None:
        while not self._stopping:
            for peer, data in self._listener.poll(None):
                if data is not None:
                    self._hear(peer, data)
            if self._leaving:
                self._hang_up_on_all()

    def _hang_up_on_all(self) -> None:
        for peer in self._peers:
            self._listener.send(peer, codec.encode(DoorIsShut()))
            self._listener.drop(peer)
        self._peers.clear()
        self._leaving = False

    def _hear(self, peer: Peer, data: bytes) -> None:
        message = to_door.decode(data)
        if isinstance(message, DoorHello):
            self._peers.add(peer)
            self._listener.send(peer, codec.encode(DoorIsOpen()))
            return
        self.heard.append(message)
        answer = self.answer(message)
        if answer is not None:
            self._listener.send(peer, codec.encode(answer))
        if self._hang_up:
            self._hang_up = False
            self._listener.drop(peer)


@pytest.fixture
def door(hub: FakeHub, connector: FakeConnector, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDoor]:
    monkeypatch.setattr(direct, "PATIENCE_S", 10.0)  # however busy the machine is
    with tempfile.TemporaryDirectory(prefix="fnb-") as directory:
        address = f"unix:{Path(directory) / 'door'}"
        made = FakeDoor(address)
        hub.lent, connector.doors[ENGINE] = ENGINE, address
        yield made
        made.close()


@pytest.fixture
def impatient(door: FakeDoor, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on the client does not wait for long."""
    return lambda: monkeypatch.setattr(direct, "PATIENCE_S", 0.05)


@fnb.remote
def total(*numbers: int) -> int:
    return sum(numbers)


def lead(door: FakeDoor) -> None:
    """Call until a call comes to the door."""
    for _ in range(10_000):
        assert fnb.get(total.remote(1, 2)) == 3
        if door.heard:
            door.heard.clear()
            return
    raise AssertionError("nothing came to the door")


def call_until_heard(door: FakeDoor) -> None:
    """Call until a call has come to the door once more; the hub answers what the door does not."""
    for _ in range(10_000):
        assert fnb.get(total.remote(3, 4)) == 7
        if door.heard:
            return
    raise AssertionError("nothing came to the door")


def miss(door: FakeDoor, timeout_s: float) -> list[fnb.ObjectRef]:
    """Calls that nobody answers in time, the last of which came to the door."""
    refs: list[fnb.ObjectRef] = []
    while not door.heard:
        refs.append(total.remote(1))
        with pytest.raises(GetTimeout):
            fnb.get(refs[-1], timeout=timeout_s)
    return refs


def submits(hub: FakeHub, begun: bool | None = None) -> list[m.Submit]:
    return [each for each in hub.of(m.Submit) if begun in (None, bool(each.begun_on))]


def test_after_some_calls_the_hub_is_asked_once(hub: FakeHub, session: Session) -> None:
    for _ in range(3 * direct.ASK_AFTER):
        assert fnb.get(total.remote(1)) == 1
    assert [message.actor for message in hub.of(m.Meet)] == [0]


def test_calls_in_batches_do_not_count(hub: FakeHub, session: Session) -> None:
    for _ in range(3 * direct.ASK_AFTER):
        assert fnb.get([total.remote(1), total.remote(2)]) == [1, 2]
    assert hub.of(m.Meet) == []


def test_calls_go_past_the_hub(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)
    before = len(submits(hub))
    assert [fnb.get(total.remote(number, 1)) for number in range(50)] == list(range(1, 51))
    assert len(door.heard) + len(submits(hub)) - before == 50
    assert door.heard
    assert all(run.code is None for run in door.heard), "it has been sent with the first one"


def test_what_others_wait_for_goes_by_the_hub(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)
    ref = total.remote(1)
    put = fnb.put(5)
    assert fnb.get(total.remote(put)) == 5
    assert fnb.get(ref) == 1
    assert fnb.get(total.options(num_cpus=2).remote(2)) == 2
    assert fnb.get([total.remote(1), total.remote(2)]) == [1, 2]
    assert door.heard == []


def test_a_door_that_asks_for_the_hub(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)
    door.answer = lambda run: AskHub(task=run.calls[0].id)
    call_until_heard(door)
    [message] = submits(hub, begun=True)
    assert (message.begun_on, [call.id for call in message.calls]) == (ENGINE, [door.heard[0].calls[0].id])
    door.answer = door.add
    heard = len(door.heard)
    assert fnb.get(total.remote(5)) == 5
    assert len(door.heard) == heard, "the function is left to the hub for a while"


def test_an_engine_that_says_nothing(
    hub: FakeHub, session: Session, door: FakeDoor, impatient: Callable[[], None]
) -> None:
    lead(door)
    impatient()
    door.answer = lambda _: None
    call_until_heard(door)
    assert [message.begun_on for message in submits(hub, begun=True)] == [ENGINE]
    assert session.books.outbox.diverted is None


def test_a_door_that_is_shut(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)
    door.answer = lambda _: DoorIsShut()
    call_until_heard(door)
    assert submits(hub, begun=True) == [], "it has not been run"
    door.answer = door.add
    door.heard.clear()
    lead(door)


def test_a_door_that_was_shut_before(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)
    door.leave()
    assert fnb.get(total.remote(3, 4)) == 7
    assert submits(hub, begun=True) == [], "nobody can have run it"
    lead(door)


def test_an_engine_that_dies(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)
    door.answer = door.die
    call_until_heard(door)
    assert [message.begun_on for message in submits(hub, begun=True)] == [ENGINE]
    door.answer = door.add
    door.heard.clear()
    lead(door)


def test_answers_that_come_late_are_passed_over(
    hub: FakeHub, session: Session, door: FakeDoor, impatient: Callable[[], None]
) -> None:
    lead(door)
    impatient()
    door.answer = lambda _: Answered(result=Result(77, b"", Outcome.ERROR))
    call_until_heard(door)


def test_time_limits_hold(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)
    door.answer = lambda _: None
    hub.hold = True
    refs = miss(door, 0.01)
    wait_until(lambda: submits(hub, begun=True))
    hub.release_held()
    assert set(fnb.get(refs)) == {1}


def test_an_interrupt_leaves_the_call_to_the_hub(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)

    def interrupt(_: m.Run) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    door.answer = interrupt
    with pytest.raises(KeyboardInterrupt):
        call_until_heard(door)
    wait_until(lambda: submits(hub, begun=True))
    assert fnb.get(total.remote(1)) == 1


def test_a_cancel_tells_the_hub_of_the_call_first(
    hub: FakeHub, session: Session, door: FakeDoor, impatient: Callable[[], None]
) -> None:
    lead(door)
    impatient()
    refs: list[fnb.ObjectRef] = []

    def cancel(run: m.Run) -> None:
        session.tell(m.Cancel(tasks=[run.calls[0].id]))

    door.answer = cancel
    while not door.heard:
        refs.append(total.remote(1))
        assert fnb.get(refs[-1]) == 1
    wait_until(lambda: hub.of(m.Cancel))
    kinds = [type(message) for message in hub.heard if isinstance(message, m.Cancel) or _is_of(message, refs[-1])]
    assert kinds == [m.Submit, m.Cancel]


def _is_of(message: Any, ref: fnb.ObjectRef) -> bool:
    return isinstance(message, m.Submit) and message.calls[0].id == ref.id


def test_who_needs_the_value_meanwhile_finds_it_at_the_hub(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)
    refs: list[fnb.ObjectRef] = []
    others: list[fnb.ObjectRef] = []

    def depend(run: m.Run) -> m.Message:
        others.append(total.remote(refs[-1], 1))
        return door.add(run)

    door.answer = depend
    while not others:
        refs.append(total.remote(4))
        assert fnb.get(refs[-1]) == 4
    assert fnb.get(others) == [5]
    assert [message.begun_on for message in submits(hub, begun=True)] == [ENGINE]


def test_a_new_hub_hears_where_a_call_has_begun(
    hub: FakeHub, session: Session, door: FakeDoor, impatient: Callable[[], None]
) -> None:
    lead(door)
    impatient()
    door.answer = lambda _: None
    hub.hold = True
    refs = miss(door, 0.2)
    hub.break_links(fresh=True)
    wait_until(lambda: len(submits(hub, begun=True)) == 2)
    hub.release_held()
    assert set(fnb.get(refs)) == {1}


def test_who_ends_engines_asks_anew(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)
    session.tell(m.RestartSeats(ranks=[0]))
    assert fnb.get(total.remote(1)) == 1
    assert door.heard == []
    lead(door)


def test_callbacks_run(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)
    refs: list[fnb.ObjectRef] = []
    called: list[fnb.ObjectRef] = []

    def watch(run: m.Run) -> m.Message:
        refs[-1].add_done_callback(called.append)
        return door.add(run)

    door.answer = watch
    while not door.heard:
        refs.append(total.remote(1))
        assert fnb.get(refs[-1]) == 1
    wait_until(lambda: called == [refs[-1]])


def test_a_door_that_never_opens_is_given_up(hub: FakeHub, session: Session, connector: FakeConnector) -> None:
    hub.lent, connector.doors[ENGINE] = ENGINE, "unix:/nowhere/door"
    while len(hub.of(m.Meet)) < 2:
        assert fnb.get(total.remote(1)) == 1


def test_a_way_that_is_given_up_while_it_is_dialled(session: Session, connector: FakeConnector, door: FakeDoor) -> None:
    way = direct.Way(ENGINE)

    def dial(engine: int) -> transport.Link:
        way.close()
        return connector.dial_engine(engine)

    with pytest.raises(NotConnected, match="closed on this side"):
        way.advance(dial, session.line.turns)


def test_another_way_takes_the_place_of_the_one_before(hub: FakeHub, session: Session, door: FakeDoor) -> None:
    lead(door)
    before: direct.Way = session._direct._ways[direct.ANY_SEAT]
    session._direct._asked[77] = direct.ANY_SEAT
    hub.say(m.Met(request=77, engine=ENGINE))
    wait_until(lambda: session._direct._ways[direct.ANY_SEAT] is not before)
    assert before.link is not None
    wait_until(lambda: before._closed)
    with pytest.raises(NotConnected):
        before.link.fileno()


def test_a_way_that_nobody_needs_closes_its_link(session: Session, connector: FakeConnector, door: FakeDoor) -> None:
    way = direct.Way(ENGINE)
    way.advance(connector.dial_engine, session.line.turns)
    link = way.link
    assert link is not None
    del way
    gc.collect()
    with pytest.raises(NotConnected, match="closed on this side"):
        link.fileno()


def test_nothing_follows_a_call_that_the_hub_has_still_to_ask_for(
    hub: FakeHub, session: Session, door: FakeDoor
) -> None:
    """The engine remembers the last call only, and would run the one before again."""
    product = fnb.remote(lambda x, y: x * y)
    lead(door)
    door.answer = lambda run: AskHub(task=run.calls[0].id)
    hub.hold = True
    refs = miss(door, 0.2)
    door.answer = door.add
    heard = len(door.heard)
    for _ in range(20):
        refs.append(product.remote(3, 4))
        with pytest.raises(GetTimeout):
            fnb.get(refs[-1], timeout=0.01)
    assert len(door.heard) == heard
    hub.release_held()
    assert set(fnb.get(refs)) == {1, 12}
