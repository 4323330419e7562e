from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import gc
import pickle
import signal
import threading
import time
from collections.abc import Callable

import pytest

import fibernb as fnb
from fibernb import serialize
from fibernb.client import line
from fibernb.client.dialing import Opened
from fibernb.client.refs import ObjectRef, run_callbacks
from fibernb.client.session import Session
from fibernb.core import messages as m
from fibernb.errors import GetTimeout, NotConnected, RemoteTraceback, TaskCancelled
from fibernb.model import Bar, ClientId
from tests.client.fake_hub import FakeConnector, FakeHub
from tests.integration.conftest import interrupt_within


@fnb.remote
def double(x: int) -> int:
    return 2 * x


@fnb.remote
def add(x: int, y: int) -> int:
    return x + y


@fnb.remote
def fail(text: str) -> None:
    raise ValueError(text)


def wait_until(condition: Callable[[], object], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.002)


def test_values_come_back_in_order(session: Session) -> None:
    assert fnb.get([double.remote(x) for x in range(1000)]) == [2 * x for x in range(1000)]


def test_calls_travel_in_batches(session: Session, hub: FakeHub) -> None:
    fnb.get(double.map(range(2000)))
    assert len(hub.of(m.Submit)) < 100
    assert len(hub.of(m.DefineFunction)) == 1


def test_a_call_leaves_by_itself(session: Session, hub: FakeHub) -> None:
    ref = double.remote(3)
    wait_until(ref.done)
    assert ref.result(0) == 6


def test_deliveries_are_acknowledged_when_idle(session: Session, hub: FakeHub) -> None:
    fnb.get(double.remote(1))
    wait_until(lambda: hub.acknowledged == 1)


def test_a_call_leaves_although_another_thread_has_been_waiting_for_long(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    waited_for = double.remote(1)
    thread = threading.Thread(target=fnb.get, args=(waited_for,))
    thread.start()
    wait_until(lambda: session.line.turns.sleeps)  # the background thread has nothing to do
    hub.hold = False
    ref = double.remote(4)
    wait_until(ref.done)
    wait_until(lambda: hub.acknowledged == 1)
    wait_until(lambda: session.line.turns.sleeps)
    hub.release_held()
    thread.join(10)
    assert (ref.result(0), waited_for.result(0)) == (8, 2)
    wait_until(lambda: hub.acknowledged == 2)


def test_exceptions_come_back_as_themselves(session: Session) -> None:
    ref = fail.remote("no")
    with pytest.raises(ValueError, match="no") as caught:
        fnb.get(ref)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert isinstance(ref.exception(), ValueError)
    assert double.remote(1).exception() is None


def test_every_get_unpickles_anew(session: Session) -> None:
    ref = session.put([1])
    fnb.get(ref).append(2)
    assert fnb.get(ref) == [1]


def test_timeouts(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = double.remote(1)
    for timeout in (0, 0.02):
        with pytest.raises(GetTimeout):
            fnb.get(ref, timeout=timeout)
        with pytest.raises(TimeoutError):
            fnb.get([ref], timeout=timeout)
    hub.release_held()
    assert fnb.get(ref, timeout=10) == 2
    assert fnb.get(ref, timeout=0) == 2


@pytest.mark.parametrize("wrong", [5, "text", [5], {1}, None])
def test_get_refuses_what_is_no_reference(session: Session, wrong: object) -> None:
    with pytest.raises(TypeError, match="ObjectRef"):
        fnb.get(wrong)  # type: ignore[arg-type]


def test_references_as_arguments_become_values(session: Session, hub: FakeHub) -> None:
    pending, finished, given = double.remote(1), double.remote(2), fnb.put(3)
    assert fnb.get(finished) == 4
    assert fnb.get(add.remote(pending, finished)) == 6
    assert fnb.get(add.remote(given, y=given)) == 6
    assert fnb.get(double.remote(add.remote(given, 1))) == 8


def test_a_value_is_put_once_and_released_with_its_reference(session: Session, hub: FakeHub) -> None:
    ref = fnb.put(3)
    fnb.get([double.remote(ref), double.remote(ref)])
    assert sum(len(message.objects) for message in hub.of(m.PutObjects)) == 1
    id_ = ref.id
    del ref
    gc.collect()
    fnb.get(double.remote(1))
    wait_until(lambda: [message.objects for message in hub.of(m.Release)] == [[id_]])


def test_a_failed_input_fails_the_call(session: Session, hub: FakeHub) -> None:
    ref = fail.remote("early")
    with pytest.raises(ValueError, match="early"):
        fnb.get(ref)
    with pytest.raises(ValueError, match="early"):
        fnb.get(double.remote(ref))


def test_several_return_values(session: Session, hub: FakeHub) -> None:
    pair = fnb.remote(num_returns=2)(lambda x: (x, -x))
    first, second = pair.remote(4)
    assert fnb.get([first, second]) == [4, -4]
    assert fnb.get(double.remote(second)) == -8
    none = fnb.remote(num_returns=0)(lambda: None)
    assert none.remote() is None
    broken = fnb.remote(num_returns=2)(lambda: 1 / 0)
    for ref in broken.remote():
        with pytest.raises(ZeroDivisionError):
            fnb.get(ref)


def test_cancel(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = double.remote(1)
    fnb.cancel(ref, force=True)
    with pytest.raises(TaskCancelled):
        fnb.get(ref)
    assert hub.of(m.Cancel) == [m.Cancel(tasks=[ref.id], force=True)]
    fnb.cancel(ref)  # done already
    assert len(hub.of(m.Cancel)) == 1


def test_many_threads(session: Session) -> None:
    def work(base: int) -> list[int]:
        return [fnb.get(double.remote(base + offset)) for offset in range(50)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for base, values in zip(range(0, 800, 100), pool.map(work, range(0, 800, 100)), strict=True):
            assert values == [2 * (base + offset) for offset in range(50)]


def test_asyncio(session: Session) -> None:
    async def main() -> list[int]:
        refs = [double.remote(x) for x in range(100)]
        return [await refs[0], *await asyncio.gather(*(_value(ref) for ref in refs[1:]))]

    async def _value(ref: ObjectRef) -> int:
        value: int = await ref
        return value

    assert asyncio.run(main()) == [2 * x for x in range(100)]


def test_await_raises_the_exception(session: Session) -> None:
    async def main() -> None:
        await fail.remote("in vain")

    with pytest.raises(ValueError, match="in vain"):
        asyncio.run(main())


def test_futures(session: Session, hub: FakeHub) -> None:
    future = double.remote(2).future()
    assert future.result(10) == 4
    assert isinstance(fail.remote("x").future().exception(10), ValueError)
    hub.hold = True
    held = double.remote(3).future()
    assert held.cancel()
    assert held.cancel()
    assert held.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        held.result(0)
    wait_until(lambda: len(hub.of(m.Cancel)) == 1)
    assert concurrent.futures.wait([held], 10).done == {held}


def test_callbacks(session: Session, hub: FakeHub, caplog: pytest.LogCaptureFixture) -> None:
    hub.hold = True
    ref = double.remote(1)
    seen: list[object] = []

    def broken(_: ObjectRef) -> None:
        raise RuntimeError("a user's mistake")

    ref.add_done_callback(broken)
    ref.add_done_callback(lambda ref: seen.append(fnb.get(double.remote(ref.result()))))
    hub.release_held()
    wait_until(lambda: seen == [4])
    assert "a user's mistake" in caplog.text
    ref.add_done_callback(seen.append)
    assert seen == [4, ref]


def test_an_interrupt_of_a_callback_does_not_cost_the_others(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = double.remote(1)
    seen: list[object] = []

    def interrupted(_: ObjectRef) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_callbacks(ref, [seen.append, interrupted, seen.append])
    assert seen == [ref, ref]


def test_references_compare_by_id(session: Session) -> None:
    ref, other = double.remote(1), double.remote(1)
    assert ref == copy.copy(ref) == copy.deepcopy([ref])[0]
    assert ref != other
    assert ref != ref.id
    assert len({ref, other, ref}) == 2
    assert "double" in repr(ref)
    fnb.get(ref)
    assert "ok" in repr(ref)


def test_a_pickled_reference_comes_back_as_the_same_value(session: Session, hub: FakeHub) -> None:
    finished, put = double.remote(1), fnb.put(7)
    fnb.get(finished)
    first, second = pickle.loads(pickle.dumps([finished, put]))
    assert (first, second) == (finished, put)
    assert fnb.get([first, second]) == [2, 7]
    assert (first, second) == (finished, put)
    wait_until(
        lambda: {value.id for message in hub.of(m.PutObjects) for value in message.objects} == {finished.id, put.id}
    )


def test_a_shared_reference_is_put_when_it_is_answered(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = double.remote(1)
    pickle.dumps(ref)
    hub.release_held()
    fnb.get(ref)
    wait_until(lambda: [value.id for message in hub.of(m.PutObjects) for value in message.objects] == [ref.id])
    sent = [type(message) for message in hub.heard]
    wait_until(lambda: m.Acknowledge in [type(message) for message in hub.heard])
    assert m.Acknowledge not in sent[: sent.index(m.PutObjects)]


def test_wait_follows_ray(session: Session, hub: FakeHub) -> None:
    refs = [double.remote(x) for x in range(4)]
    assert fnb.wait(refs, num_returns=4) == (refs, [])
    assert fnb.wait(refs, num_returns=2) == (refs[:2], refs[2:])
    hub.hold = True
    late = double.remote(9)
    assert fnb.wait([late, *refs], num_returns=2, timeout=0) == (refs[:2], [late, *refs[2:]])
    assert fnb.wait([late], timeout=0.01) == ([], [late])
    hub.release_held()
    assert fnb.wait([late]) == ([late], [])
    assert fnb.wait([]) == ([], [])


def test_wait_checks_its_arguments(session: Session) -> None:
    ref = double.remote(1)
    with pytest.raises(TypeError):
        fnb.wait(ref)
    for arguments in ({"num_returns": 0}, {"num_returns": 3}, {"timeout": -1}, {"num_returns": 1.5}):
        with pytest.raises(ValueError, match="cannot be"):
            fnb.wait([ref, double.remote(2)], **arguments)
    with pytest.raises(ValueError, match="twice"):
        fnb.wait([ref, ref])


def test_a_broken_link_loses_nothing(session: Session, hub: FakeHub, connector: FakeConnector) -> None:
    given = fnb.put(1)
    assert fnb.get(double.remote(given)) == 2
    hub.deaf = True
    lost = [double.remote(x) for x in range(600)]
    dependent = add.remote(given, lost[0])
    session.flush()
    wait_until(lambda: sum(len(message.calls) for message in hub.of(m.Submit)) >= 601)
    hub.deaf = False
    hub.break_links(fresh=True)
    assert fnb.get(lost) == [2 * x for x in range(600)]
    assert fnb.get(dependent) == 1
    assert connector.reconnects == 1


def test_a_fresh_hub_is_told_everything(session: Session, hub: FakeHub) -> None:
    fnb.get(double.remote(fnb_put := fnb.put(5)))
    hub.hold = True
    refs = session.submit_pinned(double._code.current(), [0, 1], [b""])
    pending = double.remote(1)
    for message in (
        m.Remember(keys=("a", "b"), function=b"", args=[], ranks=None),
        m.Remember(keys=("a",), function=b"", args=[b"new"], ranks=[0]),
        m.Remember(keys=("a",), function=b"", args=[b"newest"], ranks=[0, 1]),
        m.Scale(seats=5),
        m.Detach(),
    ):
        session.tell(message)
    hub.deaf = True
    session.tell(m.Cancel(tasks=[pending.id]))
    wait_until(lambda: hub.of(m.Cancel))
    hub.deaf = False
    hub.heard.clear()
    hub.break_links(fresh=True)
    wait_until(lambda: hub.of(m.Cancel))
    assert [value.id for message in hub.of(m.PutObjects) for value in message.objects] == [fnb_put.id]
    assert [(message.first, message.ranks) for message in hub.of(m.SubmitPinned)] == [
        (refs[0].id, [0]),
        (refs[1].id, [1]),
    ]
    assert [message.args for message in hub.of(m.Remember)] == [[], [b"newest"]]
    assert hub.of(m.Scale) == [m.Scale(seats=5)]
    assert len(hub.of(m.Detach)) == 1
    with pytest.raises(TaskCancelled):
        fnb.get(pending)


def test_scaling_is_not_repeated_to_a_hub_that_knows(session: Session, hub: FakeHub, connector: FakeConnector) -> None:
    session.tell(m.Scale(seats=5))
    wait_until(lambda: len(hub.of(m.Scale)) == 1)
    hub.break_links()
    wait_until(lambda: connector.reconnects == 1)
    fnb.get(double.remote(1))
    assert len(hub.of(m.Scale)) == 1


def test_when_the_cluster_is_gone_every_waiter_is_told(
    session: Session, hub: FakeHub, connector: FakeConnector
) -> None:
    hub.hold = True
    refs = [double.remote(x) for x in range(3)]
    future = refs[2].future()
    errors: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: errors.append(refs[0].exception()))
    thread.start()
    connector.gone = True
    hub.break_links()
    thread.join(10)
    assert isinstance(errors[0], NotConnected)
    with pytest.raises(NotConnected, match="gone"):
        fnb.get(refs[1])
    assert isinstance(future.exception(10), NotConnected)
    with pytest.raises(NotConnected):
        fnb.get(double.remote(1))
    with pytest.raises(NotConnected):
        session.status()


def test_a_hub_that_stops_says_why(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = double.remote(1)
    session.flush()
    hub.say(m.HubStops(reason="somebody stopped it"))
    with pytest.raises(NotConnected, match="somebody stopped it"):
        fnb.get(ref)


def test_a_closed_session_fails_what_waits(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = double.remote(1)
    session.close(stop=True)
    with pytest.raises(NotConnected, match="closed"):
        fnb.get(ref)
    wait_until(lambda: hub.of(m.Goodbye) == [m.Goodbye(stop=True)])


def test_what_a_task_says_reaches_its_listener_once(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    heard: list[m.Said] = []
    (ref,) = session.submit_pinned(double._code.current(), [0], [b""], on_said=heard.append)
    said = [
        m.Output(task=ref.id, rank=0, sequence=0, stream="stdout", text="one"),
        m.Display(task=ref.id, rank=0, sequence=1, kind="display", content=b"{}"),
        m.Progress(task=ref.id, rank=0, sequence=2, bars=[Bar(bar=1)]),
    ]
    for message in [*said, *said]:
        hub.say(message)
    wait_until(lambda: len(heard) == 3)
    assert heard == said


def test_output_of_plain_tasks_is_printed(session: Session, hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    session.flush()
    hub.say(m.Output(task=1, rank=3, sequence=0, stream="stdout", text="a\nb\n"))
    session.status()
    assert capsys.readouterr().out == "(3) a\n(3) b\n"


def test_ctrl_c_reaches_a_waiting_get_and_leaves_the_session_whole(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = double.remote(1)
    for _ in range(5):
        thread = interrupt_within("get")
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            fnb.get(ref)
        assert time.monotonic() - begun < 5
        thread.join()
    hub.release_held()
    assert fnb.get([ref, double.remote(2)]) == [2, 4]


def test_a_storm_of_interrupts_breaks_nothing(session: Session, connector: FakeConnector) -> None:
    main = threading.main_thread().ident
    assert main is not None
    stop = threading.Event()
    interrupts = 0

    def storm() -> None:
        while not stop.wait(0.003) and len(values) < 300:
            signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=storm)
    values: list[int] = []
    thread.start()
    try:
        while len(values) < 300:
            try:
                values.append(fnb.get(double.remote(len(values))))
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        while thread.is_alive():
            try:
                stop.set()
                thread.join()
            except KeyboardInterrupt:
                continue
    assert values == [2 * x for x in range(300)]
    assert fnb.get(double.map(range(500))) == [2 * x for x in range(500)]


def test_a_signal_handler_that_raises_breaks_nothing(session: Session, hub: FakeHub) -> None:
    class Alarm(Exception):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    def get_under_alarm(ref: fnb.ObjectRef, pause: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, pause)
        fnb.get(ref)

    before = signal.signal(signal.SIGALRM, ring)
    try:
        for pause in (0.01, 0.02, 0.03):
            hub.hold = True
            ref = double.remote(1)
            with pytest.raises(Alarm):
                get_under_alarm(ref, pause)
            hub.release_held()
            assert fnb.get(ref) == 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_references_may_die_anywhere(session: Session) -> None:
    class Late:
        """Submits a call when the garbage collector finds it."""

        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            double.remote(0)

    for _ in range(300):
        Late()
        fnb.get(double.remote(fnb.put(1)))
    gc.collect()


def test_a_link_that_opens_after_the_session_was_closed_is_closed(
    hub: FakeHub, connector: FakeConnector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "JOIN_S", 0.01)
    session = Session(connector)
    opened: list[Opened] = []
    goes_on = threading.Event()

    def reconnect(client: ClientId) -> Opened:
        goes_on.wait(10)
        opened.append(FakeConnector.reconnect(connector, client))
        return opened[0]

    monkeypatch.setattr(connector, "reconnect", reconnect)
    hub.break_links()
    wait_until(lambda: session.line._link is None)
    session.close()
    goes_on.set()
    session.line._thread.join(10)
    with pytest.raises(NotConnected):
        opened[0].link.fileno()


def test_a_status_that_was_lost_is_asked_for_again(session: Session, hub: FakeHub) -> None:
    hub.deaf = True
    thread = threading.Thread(target=session.status)
    thread.start()
    wait_until(lambda: hub.of(m.StatusRequest))
    hub.deaf = False
    hub.break_links()
    thread.join(10)
    assert not thread.is_alive()
    assert not session.inbox.requests


def test_large_arguments_travel_by_themselves(session: Session, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    size = fnb.remote(len)
    assert fnb.get([size.remote(bytes(count)) for count in (10, 700_000, 700_000, 2_000_000, 5)]) == [
        10,
        700_000,
        700_000,
        2_000_000,
        5,
    ]
    assert all(sum(len(call.args) for call in message.calls) < 2_100_000 for message in hub.of(m.Submit))
    for module in ("session", "entries"):
        monkeypatch.setattr(f"fibernb.client.{module}.MAX_ARGUMENT_BYTES", 1000)
    with pytest.raises(fnb.errors.SerializationError, match="smaller parts"):
        size.remote(bytes(2000))


def test_pinned_arguments_travel_in_portions(session: Session, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fibernb.client.ledger.PORTION_BYTES", 100)
    call = [serialize.dumps_call((b"x" * 60,), {}, ObjectRef)[0]] * 3
    refs = session.submit_pinned(fnb.remote(len)._code.current(), [4, 2, 7], call)
    assert fnb.get(refs) == [60, 60, 60]
    assert [(message.first, message.ranks) for message in hub.of(m.SubmitPinned)] == [
        (ref.id, [rank]) for ref, rank in zip(refs, [4, 2, 7], strict=True)
    ]
