from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator

import pytest

import fibernb as fnb
from fibernb import serialize
from fibernb.client import current
from fibernb.client.nested import Lending
from fibernb.client.session import Session
from fibernb.core import messages as m
from fibernb.errors import GetTimeout
from tests.client.fake_hub import FakeConnector, FakeHub
from tests.client.test_session import wait_until


@pytest.fixture
def task_session(connector: FakeConnector) -> Iterator[Session]:
    session = Session(connector, current_task=lambda: 99)
    current.use(session)
    yield session
    current.use(None)
    session.close()


def test_a_result_waits_for_calls_that_another_thread_is_just_sending(
    task_session: Session, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, go_on, sent = threading.Event(), threading.Event(), threading.Event()
    outgoing = task_session.books.outgoing

    def slow_outgoing() -> list[m.Message]:
        messages = outgoing()
        if messages:
            taken.set()
            assert go_on.wait(60)
        return messages

    def send_calls() -> None:
        task_session._send_calls()
        sent.set()

    monkeypatch.setattr(task_session.books, "outgoing", slow_outgoing)
    ref = fnb.remote(abs).remote(-1)
    assert taken.wait(60), "by the session's own thread"
    ending = threading.Thread(target=send_calls)
    ending.start()
    assert not sent.wait(0.1)
    go_on.set()
    ending.join()
    assert hub.of(m.Submit)
    assert fnb.get(ref) == 1


def lent(hub: FakeHub) -> list[type]:
    return [type(message) for message in hub.heard if isinstance(message, m.Blocked | m.Unblocked)]


def release_when_blocked(hub: FakeHub) -> None:
    def release() -> None:
        wait_until(lambda: hub.of(m.Blocked))
        hub.release_held()

    threading.Thread(target=release).start()


def test_calls_of_a_task_name_their_parent(task_session: Session, hub: FakeHub) -> None:
    assert fnb.get(fnb.remote(abs).remote(-1)) == 1
    assert hub.of(m.Submit)[0].parent == 99


def test_a_task_that_waits_lends_its_seat(task_session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = fnb.remote(abs).remote(-1)
    release_when_blocked(hub)
    assert fnb.get(ref) == 1
    wait_until(lambda: lent(hub) == [m.Blocked, m.Unblocked])
    assert hub.of(m.Blocked)[0].task == hub.of(m.Unblocked)[0].task == 99


def test_what_is_there_already_lends_nothing(task_session: Session, hub: FakeHub) -> None:
    ref = fnb.remote(abs).remote(-1)
    wait_until(ref.done)
    assert fnb.get(ref) == 1
    assert fnb.get(fnb.put(1)) == 1
    assert fnb.wait([ref]) == ([ref], [])
    task_session.settle()
    assert lent(hub) == []


def test_a_coroutine_that_waits_lends_the_seat(task_session: Session, hub: FakeHub) -> None:
    hub.hold = True
    refs = fnb.remote(abs).map([-1, -2])

    async def main() -> list[int]:
        return [await value for value in [asyncio.ensure_future(_value(ref)) for ref in refs]]

    release_when_blocked(hub)
    assert asyncio.run(main()) == [1, 2]
    wait_until(lambda: lent(hub) == [m.Blocked, m.Unblocked])


async def _value(ref: fnb.ObjectRef) -> int:
    value: int = await ref
    return value


def test_time_limits_hold_in_tasks(task_session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = fnb.remote(abs).remote(-1)
    for timeout in (0, 0.02):
        begun = time.monotonic()
        with pytest.raises(GetTimeout):
            fnb.get(ref, timeout=timeout)
        assert time.monotonic() - begun < 5
    wait_until(lambda: lent(hub) == [m.Blocked, m.Unblocked])


def test_a_new_hub_hears_which_seats_are_lent(task_session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = fnb.remote(abs).remote(-1)
    thread = threading.Thread(target=lambda: fnb.get(ref))
    thread.start()
    wait_until(lambda: hub.of(m.Blocked))
    hub.heard.clear()
    hub.break_links(fresh=True)
    wait_until(lambda: hub.of(m.Blocked) and hub.of(m.Submit))
    hub.release_held()
    thread.join(10)
    assert not thread.is_alive()


def test_a_task_is_lent_once_however_many_of_its_threads_wait() -> None:
    sent: list[m.Message] = []
    lending = Lending(sent.append)
    with lending.lent(7):
        with lending.lent(7), lending.lent(8):
            assert lending.tasks == [7, 8]
        assert lending.tasks == [7]
    assert sent == [m.Blocked(task=7), m.Blocked(task=8), m.Unblocked(task=8), m.Unblocked(task=7)]


def test_what_a_result_refers_to_is_known_to_the_hub_before_the_result(task_session: Session, hub: FakeHub) -> None:
    refs = [fnb.put(number) for number in range(1000)]
    packed = serialize.pack(refs)  # as an engine packs what a task returns
    ids = [ref.id for ref in refs]
    assert packed.refs == tuple(ids)
    del refs
    gc.collect()
    task_session.settle_references()
    assert len(hub.of(m.Sync)) == 1
    task_session.settle_references()
    assert len(hub.of(m.Sync)) == 1
    assert [value.id for message in hub.of(m.PutObjects) for value in message.objects] == ids
    assert len(hub.of(m.PutObjects)) < 10
    assert not hub.of(m.Release)  # before the result has certainly arrived


def test_what_has_left_is_let_go_of_in_the_end(
    task_session: Session, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("values", "line"):
        monkeypatch.setattr(f"fibernb.client.{module}.PARTING_S", 0.2)
    ref = fnb.put(1)
    serialize.pack([ref])
    id_ = ref.id
    del ref
    task_session.settle_references()
    wait_until(lambda: [message.objects for message in hub.of(m.Release)] == [[id_]])


def test_an_answer_that_comes_after_its_reference_has_left_is_put(task_session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = fnb.remote(abs).remote(-1)
    serialize.pack([ref])
    serialize.pack([ref])
    task_session.settle_references()
    assert not hub.of(m.PutObjects)
    hub.release_held()
    wait_until(lambda: [value.id for message in hub.of(m.PutObjects) for value in message.objects] == [ref.id])


def test_a_future_that_is_waited_for_lends_the_seat(task_session: Session, hub: FakeHub) -> None:
    hub.hold = True
    future = fnb.remote(abs).remote(-1).future()
    release_when_blocked(hub)
    assert future.result(10) == 1
    assert future.exception() is None
    wait_until(lambda: lent(hub) == [m.Blocked, m.Unblocked])
