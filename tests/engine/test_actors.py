"""Actors in an engine: made, called one by one, in threads, in an event loop; ended, saved and restored."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from fibernb import serialize
from fibernb.core.messages import Checkpoint, Consume, Done, EndActor, Interrupt, Run
from fibernb.engine.actors import ActorExit, Method, ProcessExit
from fibernb.errors import ActorDied, ClusterError
from fibernb.model import STREAM_IDS, STREAMING, ActorOptions, Call, Outcome, TaskId, TaskOptions
from fibernb.wire import codec
from tests.engine.conftest import ENGINE, InProcess
from tests.engine.fakehub import FakeHub

THREADED = ActorOptions(class_name="A", max_concurrency=4)
ASYNC = ActorOptions(class_name="A", max_concurrency=1000, is_async=True)

gates: dict[str, threading.Event] = {}
dropped = threading.Event()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    gates.clear()
    gates.update(open=threading.Event(), begun=threading.Event())
    dropped.clear()


class Counter:
    def __init__(self, value: int = 0) -> None:
        self.value = value

    def __del__(self) -> None:
        dropped.set()

    def add(self, step: int = 1) -> int:
        self.value += step
        return self.value

    def fail(self) -> None:
        raise ValueError("told")

    def leave(self) -> None:
        raise ActorExit

    def end_process(self, code: int) -> None:
        gates["begun"].set()
        raise ProcessExit(code)

    def wait(self) -> str:
        gates["begun"].set()
        while not gates["open"].wait(0.01):
            pass
        return threading.current_thread().name

    def open(self) -> str:
        gates["open"].set()
        return threading.current_thread().name

    def items(self, count: int) -> Iterator[int]:
        yield from range(count)

    def say(self, text: str) -> None:
        print(text)


class Fails:
    def __init__(self) -> None:
        raise KeyError("no")


def call(hub: FakeHub, name: str, *args: Any, group: str = "", **options: Any) -> TaskId:
    (task,) = hub.send(ENGINE, Method(name, group), args, **options)
    return task


def value(hub: FakeHub, name: str, *args: Any, **options: Any) -> Any:
    return hub.value(call(hub, name, *args, **options))


def test_calls_of_an_actor_share_its_instance_and_run_in_order(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        assert hub.value(hub.create(ENGINE, Counter, 10)) is None
        tasks = hub.send(ENGINE, Method("add"), *[()] * 100)
        assert [hub.value(task) for task in tasks] == list(range(11, 111))
        with pytest.raises(ValueError, match="told"):
            value(hub, "fail")
        with pytest.raises(AttributeError, match="ad"):
            value(hub, "ad")
        assert value(hub, "__ray_call__", lambda self, x: self.value + x, 1) == 111
        assert value(hub, "__ray_ready__") is True

    in_process.play(scenario)


def test_a_constructor_that_raises_fails_the_actor_and_its_calls(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        with pytest.raises(ActorDied, match="its constructor raised KeyError: 'no'") as caught:
            hub.value(hub.create(ENGINE, Fails))
        assert "raise KeyError" in str(caught.value.__cause__)
        with pytest.raises(ActorDied, match="constructor"):
            value(hub, "add")

    in_process.play(scenario)


def test_an_actor_that_exits_answers_no_more_calls(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, Counter)
        first, last, after = call(hub, "add"), call(hub, "leave"), call(hub, "add")
        hub.wait(lambda: hub.actor_exits)
        assert hub.value(first) == 1
        hub.settle(0.05)
        assert last not in hub.results
        assert after not in hub.results
        began_at = time.monotonic()
        hub.control(ENGINE, EndActor())
        assert dropped.wait(5)
        assert time.monotonic() - began_at < 1

    in_process.play(scenario)


class Tidy(Counter):
    def __ray_shutdown__(self) -> None:
        gates["shut"].set()


class TidyAsync(Counter):
    async def __ray_shutdown__(self) -> None:
        await asyncio.sleep(0)
        gates["shut"].set()


class Untidy(Tidy):
    def __fibernb_shutdown__(self) -> None:
        self.__ray_shutdown__()
        raise RuntimeError("untidy")


@pytest.mark.parametrize(
    ("kind", "options"),
    [(Tidy, ActorOptions()), (Tidy, THREADED), (TidyAsync, ASYNC), (Untidy, ActorOptions()), (Untidy, ASYNC)],
)
def test_an_actor_cleans_up(in_process: InProcess, kind: type, options: ActorOptions) -> None:
    gates["shut"] = threading.Event()

    def scenario(hub: FakeHub) -> None:
        hub.value(hub.create(ENGINE, kind, options=options))
        hub.control(ENGINE, EndActor())
        assert gates["shut"].wait(5)

    assert in_process.play(scenario) == 0


def test_a_process_ends_with_its_exit_code_and_without_an_answer(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.value(hub.create(ENGINE, Counter, options=ActorOptions(is_process=True)))
        task = call(hub, "end_process", 7)
        hub.wait(gates["begun"].is_set)
        hub.settle(0.05)
        assert task not in hub.results

    before = signal.getsignal(signal.SIGTERM)
    assert in_process.play(scenario) == 7
    signal.signal(signal.SIGTERM, before)


def test_an_actor_that_nobody_needs_ends_when_its_calls_are_done(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, Counter)
        task = call(hub, "wait")
        hub.wait(gates["begun"].is_set)
        hub.control(ENGINE, EndActor())
        hub.settle(0.1)
        gates["open"].set()
        assert hub.value(task) == "MainThread"
        assert dropped.wait(5)

    assert in_process.play(scenario) == 0


def test_a_new_hub_is_told_of_the_actor(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        actor = hub.value(hub.create(ENGINE, Saving)) or 1
        assert value(hub, "add") == 1
        hub.hellos.clear()
        saved = len(hub.checkpoints)
        for peer in (hub.datas[ENGINE], hub.controls[ENGINE]):
            hub.listener.drop(peer)
        hub.wait(lambda: ENGINE in hub.hellos and len(hub.checkpoints) > saved)
        record = hub.hellos[ENGINE].actor
        assert record is not None
        assert record.create.actor == actor
        assert serialize.loads(hub.checkpoints[-1].state) == 1
        assert value(hub, "add") == 2

    in_process.play(scenario)


# ---- checkpoints ------------------------------------------------------------------------------------------


class Saving(Counter):
    def __fibernb_checkpoint__(self) -> int | None:
        if self.value == 13:
            raise RuntimeError("unlucky")
        return self.value if self.value % 5 or self.value == 0 else None

    def __fibernb_restore__(self, state: int) -> None:
        self.value = state


class SavingAsync(Saving):
    async def bump(self) -> int:
        return self.add()

    async def __fibernb_checkpoint__(self) -> int:  # type: ignore[override]
        return self.value

    async def __fibernb_restore__(self, state: int) -> None:  # type: ignore[override]
        self.value = state


class SavingRarely(Saving):
    __fibernb_checkpoint_interval_s__ = 60


def test_checkpoints_come_before_the_result_of_their_call(
    in_process: InProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, Saving)
        hub.value(hub.send(ENGINE, Method("add"), *[()] * 6)[-1])
        assert [serialize.loads(message.state) for message in hub.checkpoints] == [1, 2, 3, 4, 6]
        last = max(i for i, message in enumerate(hub.heard) if isinstance(message, Checkpoint))
        assert any(isinstance(message, Done) for message in hub.heard[last:])
        assert value(hub, "add", 7) == 13
        assert len(hub.checkpoints) == 5

    in_process.play(scenario)
    assert "keeps the checkpoint" in capsys.readouterr().err


def test_checkpoints_may_be_rare(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, SavingRarely)
        hub.value(hub.send(ENGINE, Method("add"), *[()] * 6)[-1])
        assert [serialize.loads(message.state) for message in hub.checkpoints] == [1]

    in_process.play(scenario)


@pytest.mark.parametrize(
    ("kind", "options", "method"),
    [(Saving, ActorOptions(), "add"), (Saving, THREADED, "add"), (SavingAsync, ASYNC, "bump")],
)
def test_a_restarted_actor_goes_on_from_its_checkpoint(
    in_process: InProcess, kind: type, options: ActorOptions, method: str
) -> None:
    def scenario(hub: FakeHub) -> None:
        state = serialize.dumps(41)
        assert hub.value(hub.create(ENGINE, kind, options=options, restarts=1, checkpoint=state)) is None
        assert value(hub, method) == 42
        hub.wait(lambda: hub.checkpoints)
        assert serialize.loads(hub.checkpoints[-1].state) == 42

    in_process.play(scenario)


def test_a_checkpoint_without_a_way_back_is_an_error(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        actor = hub.create(ENGINE, Counter, restarts=1, checkpoint=serialize.dumps(1))
        with pytest.raises(ClusterError, match="__fibernb_restore__"):
            hub.value(actor)

    in_process.play(scenario)


# ---- threads ----------------------------------------------------------------------------------------------


def test_threads_run_calls_beside_each_other(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, Counter, options=THREADED)
        waiting = call(hub, "wait")
        hub.wait(gates["begun"].is_set)
        assert hub.value(call(hub, "open")) != hub.value(waiting)
        tasks = hub.send(ENGINE, Method("add"), *[()] * 200)
        assert sorted(hub.value(task) for task in tasks) == list(range(1, 201))
        assert call_threads() - before <= 4

    before = call_threads()
    in_process.play(scenario)


def call_threads() -> int:
    return sum(thread.name.startswith("fibernb-call") for thread in threading.enumerate())


def test_an_interrupt_ends_the_call_of_one_thread(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, Counter, options=THREADED)
        first, second = call(hub, "wait"), call(hub, "wait")
        hub.wait(gates["begun"].is_set)
        hub.settle(0.05)
        hub.control(ENGINE, Interrupt(task=first))
        with pytest.raises(KeyboardInterrupt):
            hub.value(first)
        assert hub.results[first].outcome is Outcome.CANCELLED
        assert second not in hub.results
        gates["open"].set()
        hub.value(second)

    in_process.play(scenario)


def test_interrupts_of_threads_at_any_moment_end_one_call_at_most(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, Counter, options=THREADED)
        tasks = hub.send(ENGINE, Method("add"), *[()] * 1000)
        for task in tasks[::10]:
            hub.control(ENGINE, Interrupt(task=task))
        hub.wait(lambda: len(hub.results) == 1001)
        for task in tasks:
            assert hub.results[task].outcome is Outcome.OK or task in tasks[::10]
        assert value(hub, "add") > 0

    in_process.play(scenario)


def test_groups_have_threads_of_their_own(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, Counter, options=ActorOptions(groups={"io": 1}))
        waiting = call(hub, "wait")
        hub.wait(gates["begun"].is_set)
        behind = call(hub, "add")
        assert "io" in value(hub, "open", group="io")
        hub.value(waiting)
        assert hub.value(behind) == 1

    in_process.play(scenario)


# ---- event loops ------------------------------------------------------------------------------------------


class Async:
    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.most = self.now = 0
        asyncio.get_running_loop()

    async def wait(self) -> str:
        await self.event.wait()
        return "opened"

    async def open(self) -> None:
        self.event.set()

    async def work(self, seconds: float) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(seconds)
        self.now -= 1
        return self.most

    def plain(self) -> int:
        return 7

    async def fail(self) -> None:
        raise ValueError("told")

    async def leave(self) -> None:
        raise ActorExit

    async def items(self, count: int) -> AsyncIterator[int]:
        for index in range(count):
            yield index


def test_coroutines_run_beside_each_other_and_end_in_any_order(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        assert hub.value(hub.create(ENGINE, Async, options=ASYNC)) is None
        waiting = [call(hub, "wait") for _ in range(20)]
        assert value(hub, "plain") == 7
        with pytest.raises(ValueError, match="told"):
            value(hub, "fail")
        call(hub, "open")
        assert [hub.value(task) for task in waiting] == ["opened"] * 20

    assert in_process.play(scenario) == 0


def test_no_more_coroutines_at_a_time_than_allowed(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        options = ActorOptions(max_concurrency=2, is_async=True, groups={"io": 3})
        hub.create(ENGINE, Async, options=options)
        tasks = hub.send(ENGINE, Method("work"), *[(0.005,)] * 20)
        assert max(hub.value(task) for task in tasks) == 2
        tasks = hub.send(ENGINE, Method("work", "io"), *[(0.005,)] * 20)
        assert max(hub.value(task) for task in tasks) == 3

    in_process.play(scenario)


def test_an_interrupt_cancels_a_coroutine(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, Async, options=ActorOptions(max_concurrency=2, is_async=True))
        first, second, third = [call(hub, "wait") for _ in range(3)]
        hub.settle(0.05)
        hub.control(ENGINE, Interrupt(task=first))
        with pytest.raises(KeyboardInterrupt):
            hub.value(first)
        assert hub.results[first].outcome is Outcome.CANCELLED
        hub.control(ENGINE, Interrupt(task=third))
        call(hub, "open")
        assert hub.value(second) == "opened"
        hub.wait(lambda: third in hub.results)

    in_process.play(scenario)


def test_an_asyncio_actor_exits_and_ends(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, Async, options=ASYNC)
        call(hub, "leave")
        hub.wait(lambda: hub.actor_exits)

    assert in_process.play(scenario) == 0

    def ends(hub: FakeHub) -> None:
        hub.create(ENGINE, Async, options=ASYNC)
        assert value(hub, "plain") == 7
        hub.control(ENGINE, EndActor())

    assert in_process.play(ends) == 0


def test_an_asyncio_actor_survives_its_hub(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, Async, options=ASYNC)
        waiting = [call(hub, "wait") for _ in range(3)]
        hub.settle(0.05)
        hub.hellos.clear()
        for peer in (hub.datas[ENGINE], hub.controls[ENGINE]):
            hub.listener.drop(peer)
        hub.wait(lambda: ENGINE in hub.hellos)
        hello = hub.hellos[ENGINE]
        assert (hello.received, hello.holds, hello.running) == (4, waiting, True)
        call(hub, "open")
        assert [hub.value(task) for task in waiting] == ["opened"] * 3

    in_process.play(scenario)


def test_a_constructor_of_an_asyncio_actor_that_raises(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        with pytest.raises(ActorDied, match="its constructor raised KeyError: 'no'"):
            hub.value(hub.create(ENGINE, Fails, options=ASYNC))
        with pytest.raises(ActorDied):
            value(hub, "add")

    in_process.play(scenario)


# ---- streams ----------------------------------------------------------------------------------------------


class Plain:
    def items(self, count: int) -> Iterator[int]:
        yield from range(count)


class AsyncItems:
    async def items(self, count: int) -> AsyncIterator[int]:
        for index in range(count):
            await asyncio.sleep(0)
            yield index


@pytest.mark.parametrize(
    ("kind", "options"),
    [(Counter, ActorOptions()), (Counter, THREADED), (Async, ASYNC), (Plain, ASYNC), (AsyncItems, ActorOptions())],
)
def test_methods_stream(in_process: InProcess, kind: type, options: ActorOptions) -> None:
    def scenario(hub: FakeHub) -> None:
        hub.create(ENGINE, kind, options=options)
        digest, code = serialize.dumps_function(Method("items"))
        args = serialize.dumps_call((30,), {}, FakeHub)[0]
        run = Run(
            function=digest,
            calls=[Call(STREAM_IDS, args)],
            position=hub.positions[ENGINE],
            code=code,
            options=TaskOptions(num_returns=STREAMING, backpressure=10),
        )
        hub.listener.send(hub.datas[ENGINE], codec.encode(run))
        hub.wait(lambda: STREAM_IDS + 10 in hub.results)
        hub.settle(0.1)
        assert STREAM_IDS + 11 not in hub.results
        hub.control(ENGINE, Consume(task=STREAM_IDS, items=5))
        hub.wait(lambda: STREAM_IDS + 15 in hub.results)
        hub.control(ENGINE, Consume(task=STREAM_IDS, items=30))
        assert hub.value(STREAM_IDS) == 30
        assert [hub.value(STREAM_IDS + 1 + i) for i in range(30)] == list(range(30))

    in_process.play(scenario)
