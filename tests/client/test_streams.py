from __future__ import annotations

import asyncio
import gc
import pickle
import threading

import pytest

import fibernb as fnb
from fibernb import serialize
from fibernb.client.refs import Group, ObjectRef
from fibernb.client.session import Session
from fibernb.client.streams import ObjectRefGenerator
from fibernb.core import messages as m
from fibernb.errors import NotConnected
from fibernb.model import STREAM_IDS, STREAMING, Outcome, Result, TaskOptions
from fibernb.serialize import Packed
from tests.client.fake_hub import FakeConnector, FakeHub
from tests.client.test_holding import released
from tests.client.test_session import double, wait_until

ARGS = Packed(serialize.dumps(((),)))


def start(session: Session, backpressure: int = 0) -> ObjectRefGenerator:
    options = TaskOptions(name="count", num_returns=STREAMING, backpressure=backpressure)
    return session.submit_stream(Group(b"code", options), ARGS, [])


def item(generator: ObjectRefGenerator, index: int, value: object = None) -> Result:
    return Result(generator.id + 1 + index, serialize.dumps(index if value is None else value))


def end(generator: ObjectRefGenerator, count: int) -> Result:
    return Result(generator.id, serialize.dumps(count))


def failure(generator: ObjectRefGenerator, outcome: Outcome = Outcome.ERROR) -> Result:
    return Result(generator.id, serialize.dumps_error(ValueError("spoilt"), ""), outcome)


def test_items_come_out_while_the_task_runs(session: Session, hub: FakeHub) -> None:
    generator = start(session)
    assert generator.id % STREAM_IDS == 0
    hub.deliver([item(generator, 0), item(generator, 1)])
    assert fnb.get(next(generator)) == 0
    assert not generator.is_finished()
    hub.deliver([item(generator, 2), end(generator, 3)])
    assert fnb.get(list(generator)) == [1, 2]
    assert generator.is_finished()
    assert fnb.get(generator.completed()) == 3
    with pytest.raises(StopIteration):
        next(generator)
    assert "3 taken" in repr(generator)


def test_next_waits(session: Session, hub: FakeHub) -> None:
    generator = start(session)
    threading.Timer(0.05, lambda: hub.deliver([item(generator, 0)])).start()
    assert fnb.get(next(generator)) == 0
    threading.Timer(0.05, lambda: hub.deliver([end(generator, 1)])).start()
    assert list(generator) == []


def test_ids_of_what_follows_are_its_own(session: Session, hub: FakeHub) -> None:
    before = double.remote(1)
    first, second = start(session), start(session)
    after = double.remote(2)
    assert before.id < first.id < first.id + STREAM_IDS <= second.id < second.id + STREAM_IDS <= after.id
    assert fnb.get([before, after]) == [2, 4]


def test_an_error_comes_after_the_items_that_were_made(session: Session, hub: FakeHub) -> None:
    generator = start(session)
    hub.deliver([item(generator, 0), failure(generator)])
    first, last = generator
    assert fnb.get(first) == 0
    with pytest.raises(ValueError, match="spoilt"):
        fnb.get(last)
    with pytest.raises(ValueError, match="spoilt"):
        fnb.get(generator.completed())
    assert generator.is_finished()
    assert not generator.next_ready()


def test_what_is_ready(session: Session, hub: FakeHub) -> None:
    generator = start(session)
    session.flush()
    assert not generator.next_ready()
    assert fnb.wait([generator], timeout=0) == ([], [generator])
    hub.deliver([item(generator, 0)])
    both: list[ObjectRef | ObjectRefGenerator] = [generator, double.remote(1)]
    assert fnb.wait(both, num_returns=2) == (both, [])
    assert generator.next_ready()
    next(generator)
    hub.deliver([end(generator, 1)])
    fnb.get(generator.completed())
    assert not generator.next_ready()
    assert generator.is_finished()


def test_items_that_come_again_are_passed_over(session: Session, hub: FakeHub) -> None:
    generator = start(session)
    hub.deliver([item(generator, 0), item(generator, 1)])
    assert fnb.get(next(generator)) == 0
    hub.deliver([item(generator, index, "again") for index in range(3)] + [end(generator, 3)])
    assert fnb.get(list(generator)) == [1, "again"]


def test_the_engine_hears_what_was_taken(session: Session, hub: FakeHub) -> None:
    generator = start(session, backpressure=4)
    hub.deliver([item(generator, index) for index in range(4)])
    for _ in range(4):
        next(generator)
    wait_until(lambda: hub.of(m.Consume) and hub.of(m.Consume)[-1].items == 4)
    wide = start(session)
    hub.deliver([item(wide, index) for index in range(10)])
    next(wide)
    session.settle()
    assert not [message for message in hub.of(m.Consume) if message.task == wide.id]
    for _ in range(9):
        next(wide)
    threading.Timer(0.05, lambda: hub.deliver([end(wide, 10)])).start()
    assert list(wide) == []  # who has to wait tells all
    assert hub.of(m.Consume)[-1] == m.Consume(task=wide.id, items=10)


def test_a_dropped_generator_stops_its_task_and_frees_its_items(session: Session, hub: FakeHub) -> None:
    generator = start(session)
    hub.deliver([item(generator, 0), item(generator, 1)])
    task = generator.id
    fnb.get(next(generator))
    hub.deaf = True  # so that it does not end the task at once
    del generator
    gc.collect()
    wait_until(lambda: hub.of(m.Cancel) == [m.Cancel(tasks=[task])])
    wait_until(lambda: sorted(released(hub)) == [task + 1, task + 2])
    hub.deliver([Result(task + 3, serialize.dumps(2))])
    wait_until(lambda: sorted(released(hub)) == [task + 1, task + 2, task + 3])


def test_a_finished_generator_stops_nothing(session: Session, hub: FakeHub) -> None:
    generator = start(session)
    hub.deliver([item(generator, 0), end(generator, 1)])
    fnb.get(generator.completed())
    task = generator.id
    del generator
    gc.collect()
    wait_until(lambda: released(hub) == [task + 1])
    session.settle()
    assert not hub.of(m.Cancel)


def test_asynchronous_iteration(session: Session, hub: FakeHub) -> None:
    generator = start(session)

    async def main() -> list[object]:
        threading.Timer(0.02, lambda: hub.deliver([item(generator, 0)])).start()
        threading.Timer(0.05, lambda: hub.deliver([item(generator, 1), end(generator, 2)])).start()
        return [await ref async for ref in generator]

    assert asyncio.run(main()) == [0, 1]


def test_asynchronous_iteration_raises_at_the_end(session: Session, hub: FakeHub) -> None:
    generator = start(session)

    async def main() -> None:
        threading.Timer(0.02, lambda: hub.deliver([failure(generator)])).start()
        async for ref in generator:
            await ref

    with pytest.raises(ValueError, match="spoilt"):
        asyncio.run(main())


def test_cancelling(session: Session, hub: FakeHub) -> None:
    generator = start(session)
    hub.deliver([item(generator, 0)])
    generator.cancel()
    first, last = generator
    assert fnb.get(first) == 0
    with pytest.raises(fnb.errors.TaskCancelled):
        fnb.get(last)


def test_a_new_hub_hears_of_the_call_and_of_what_was_taken(session: Session, hub: FakeHub) -> None:
    generator = start(session, backpressure=4)
    hub.deliver([item(generator, 0), item(generator, 1)])
    taken = next(generator)
    session.settle()
    hub.heard.clear()
    hub.break_links(fresh=True)
    wait_until(lambda: hub.of(m.Consume) == [m.Consume(task=generator.id, items=1)])
    assert [call.id for message in hub.of(m.Submit) for call in message.calls] == [generator.id]
    assert [value.id for message in hub.of(m.PutObjects) for value in message.objects] == [taken.id, taken.id + 1]
    hub.deliver([item(generator, 0), item(generator, 1), item(generator, 2), end(generator, 3)])
    assert fnb.get(list(generator)) == [1, 2]


def test_the_end_of_the_session_ends_it(session: Session, hub: FakeHub, connector: FakeConnector) -> None:
    generator = start(session)
    connector.gone = True
    hub.break_links()
    with pytest.raises(NotConnected):
        fnb.get(next(generator))


def test_a_failed_input_fails_it_at_once(session: Session, hub: FakeHub) -> None:
    broken = fnb.remote(lambda: 1 / 0).remote()
    assert broken.exception() is not None
    options = TaskOptions(num_returns=STREAMING)
    (only,) = session.submit_stream(Group(b"code", options), ARGS, [broken])
    with pytest.raises(ZeroDivisionError):
        fnb.get(only)


def test_it_cannot_travel_and_is_no_reference(session: Session, hub: FakeHub) -> None:
    generator = start(session)
    with pytest.raises(TypeError, match="stays where it was made"):
        pickle.dumps(generator)
    with pytest.raises(TypeError, match="iterate over it"):
        fnb.get(generator)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="iterate over it"):
        fnb.get([generator])
    with pytest.raises(TypeError, match=r"wait\(\[ref\]\)"):
        fnb.wait(generator)  # type: ignore[arg-type]


def test_items_that_come_again_after_they_were_dropped_are_released_again(session: Session, hub: FakeHub) -> None:
    generator = start(session)
    hub.deliver([item(generator, 0), item(generator, 1)])
    next(generator)
    kept = next(generator)
    wait_until(lambda: released(hub) == [generator.id + 1])
    hub.deliver([item(generator, 0), item(generator, 1)])
    wait_until(lambda: released(hub) == [generator.id + 1] * 2)
    session.settle()
    assert kept.id not in released(hub)
    hub.deliver([end(generator, 2)])
    assert list(generator) == []
    hub.deliver([item(generator, 0), item(generator, 1), end(generator, 2)])
    wait_until(lambda: released(hub) == [generator.id + 1] * 3)
