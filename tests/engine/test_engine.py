"""The engine's loop against a hub in the same process."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import pytest

from fibernb import serialize
from fibernb.core.messages import Forget, Interrupt, Recall, Recalled, Run
from fibernb.engine import batches
from fibernb.errors import ProtocolError, SerializationError, TaskCancelled, TaskError
from fibernb.model import Call, Outcome, Result, TaskOptions
from fibernb.wire import codec
from tests.engine.conftest import ENGINE, RANK, InProcess
from tests.engine.fakehub import FakeHub

gate = threading.Event()
begun = threading.Event()


@pytest.fixture(autouse=True)
def _closed_gate() -> None:
    gate.clear()
    begun.clear()


def double(x: int) -> int:
    return 2 * x


def wait_for_gate(x: int = 0) -> int:
    begun.set()
    while not gate.wait(0.01):
        pass
    return x


def sleep_long() -> None:
    begun.set()
    time.sleep(30)


def fail(text: str) -> None:
    raise ValueError(text)


def drop_links(hub: FakeHub) -> None:
    """Break both links of the engine, as a hub that was killed does."""
    hub.hellos.clear()
    for peer in (hub.datas[ENGINE], hub.controls[ENGINE]):
        hub.listener.drop(peer)


def test_calls_run_in_order_and_their_results_come_in_numbered_messages(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        tasks = hub.send(ENGINE, double, *[(i,) for i in range(500)])
        assert hub.value(tasks[-1]) == 998
        assert [hub.value(task) for task in tasks] == [2 * i for i in range(500)]
        assert [result.id for _, done in hub.dones for result in done.results] == tasks
        assert [done.sequence for _, done in hub.dones] == list(range(1, len(hub.dones) + 1))
        assert len(hub.dones) < 100
        assert 0 < sum(done.run_s for _, done in hub.dones) < 10

    assert in_process.play(scenario) == 0


def test_the_hello_tells_who_it_is(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        hello = hub.hellos[ENGINE]
        assert (hello.rank, hello.received, hello.holds, hello.running, hello.redelivers) == (RANK, 0, [], False, 0)

    in_process.play(scenario)


def test_results_of_short_calls_do_not_wait_for_a_long_one(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        def quick_then_long(x: int) -> int:
            return wait_for_gate(x) if x == 2 else x

        first, second, third = hub.send(ENGINE, quick_then_long, (0,), (1,), (2,))
        assert [hub.value(first), hub.value(second)] == [0, 1]
        assert third not in hub.results
        gate.set()
        assert hub.value(third) == 2

    in_process.play(scenario)


def test_exceptions_come_back_with_the_frames_of_the_user_only(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        with pytest.raises(ValueError, match="told") as caught:
            hub.call(ENGINE, fail, "told")
        text = str(caught.value.__cause__)
        assert "raise ValueError(text)" in text
        assert "fibernb/engine" not in text
        assert hub.call(ENGINE, double, 4) == 8

    in_process.play(scenario)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_a_task_raises_is_its_own_error(in_process: InProcess, error: BaseException) -> None:
    def scenario(hub: FakeHub) -> None:
        def raises() -> None:
            raise error

        (task,) = hub.send(ENGINE, raises, ())
        with pytest.raises(type(error)):
            hub.value(task)
        assert hub.results[task].outcome is Outcome.ERROR
        assert hub.call(ENGINE, double, 1) == 2

    in_process.play(scenario)


def test_a_result_that_cannot_be_pickled_is_an_error_that_names_it(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        def make() -> dict[str, object]:
            return {"lock": threading.Lock()}

        with pytest.raises(SerializationError, match=r"result of made\['lock'\]: cannot pickle"):
            hub.call(ENGINE, make, options=TaskOptions(name="made"))

    in_process.play(scenario)


@pytest.mark.parametrize("count", [0, 2, 3])
def test_several_values(in_process: InProcess, count: int) -> None:
    def scenario(hub: FakeHub) -> None:
        (task,) = hub.send(ENGINE, range, (count,), options=TaskOptions(num_returns=count))
        hub.value(task)
        result = hub.results[task]
        values = [serialize.loads(part.value) for part in (result, *result.more)]
        assert values == ([*range(count)] if count else [None])

    in_process.play(scenario)


@pytest.mark.parametrize("value", [(1,), (1, 2, 3), 5])
def test_a_wrong_number_of_values_is_an_error(in_process: InProcess, value: object) -> None:
    def scenario(hub: FakeHub) -> None:
        with pytest.raises(ValueError, match="num_returns=2"):
            hub.call(ENGINE, lambda: value, options=TaskOptions(num_returns=2))

    in_process.play(scenario)


def test_references_become_values_of_their_own(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        def grow(items: list[int]) -> list[int]:
            items.append(1)
            return items

        args, deps = serialize.dumps_call((FakeRef(100),), {}, FakeRef)
        inputs = [Result(100, serialize.dumps([0]))]
        digest, code = serialize.dumps_function(grow)
        calls = [Call(901, args, deps), Call(902, args, deps)]
        run = Run(function=digest, calls=calls, position=0, code=code, inputs=inputs)
        hub.listener.send(hub.datas[ENGINE], codec.encode(run))
        assert [hub.value(901), hub.value(902)] == [[0, 1], [0, 1]]

    in_process.play(scenario)


class FakeRef:
    def __init__(self, id_: int) -> None:
        self.id = id_


def test_a_function_that_was_never_sent_fails_its_calls(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        run = Run(function=b"unknown", calls=[Call(901, serialize.dumps_call((), {}, FakeRef)[0])], position=0)
        hub.listener.send(hub.datas[ENGINE], codec.encode(run))
        with pytest.raises(ProtocolError, match="never sent"):
            hub.value(901)

    in_process.play(scenario)


def test_a_function_that_cannot_be_loaded_fails_its_calls(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        code = b"\x80\x05cno_such_module\nname\n."
        run = Run(function=b"x", code=code, calls=[Call(901, serialize.dumps_call((), {}, FakeRef)[0])], position=0)
        hub.listener.send(hub.datas[ENGINE], codec.encode(run))
        with pytest.raises(ModuleNotFoundError, match="no_such_module") as caught:
            hub.value(901)
        assert "while loading the function" in caught.value.__notes__[0]

    in_process.play(scenario)


# ---- interrupts -------------------------------------------------------------------------------------------


def test_an_interrupt_stops_the_running_task_and_no_other(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        running, waiting = hub.send(ENGINE, wait_for_gate, (1,), (2,))
        assert begun.wait(5)
        began_at = time.monotonic()
        hub.control(ENGINE, Interrupt(task=running))
        with pytest.raises(KeyboardInterrupt):
            hub.value(running)
        assert time.monotonic() - began_at < 1
        assert hub.results[running].outcome is Outcome.CANCELLED
        gate.set()
        assert hub.value(waiting) == 2

    in_process.play(scenario)


def test_an_interrupt_reaches_a_sleep(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        (task,) = hub.send(ENGINE, sleep_long, ())
        assert begun.wait(5)
        hub.control(ENGINE, Interrupt(task=task))
        with pytest.raises(KeyboardInterrupt):
            hub.value(task)

    in_process.play(scenario)


def test_a_task_that_has_not_begun_is_not_begun(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        running, waiting, last = hub.send(ENGINE, wait_for_gate, (1,), (2,), (3,))
        assert begun.wait(5)
        hub.control(ENGINE, Interrupt(task=waiting))
        hub.settle(0.1)
        gate.set()
        with pytest.raises(TaskCancelled):
            hub.value(waiting)
        assert hub.results[waiting].outcome is Outcome.CANCELLED
        assert [hub.value(running), hub.value(last)] == [1, 3]

    in_process.play(scenario)


def test_interrupts_that_come_late_hit_nobody(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        for _ in range(50):
            (task,) = hub.send(ENGINE, double, (1,))
            hub.value(task)
            hub.control(ENGINE, Interrupt(task=task))
            assert hub.call(ENGINE, double, 3) == 6

    in_process.play(scenario)


def test_interrupts_at_any_moment_end_one_task_at_most(in_process: InProcess) -> None:
    """Interrupts race with the beginnings and ends of short tasks: every task has exactly one result, its own."""

    def scenario(hub: FakeHub) -> None:
        tasks = hub.send(ENGINE, double, *[(i,) for i in range(3000)])
        for task in tasks[::30]:
            hub.control(ENGINE, Interrupt(task=task))
        hub.wait(lambda: len(hub.results) == len(tasks))
        results = [result for _, done in hub.dones for result in done.results]
        assert [result.id for result in results] == tasks
        for at, result in enumerate(results):
            if result.outcome is Outcome.OK:
                assert serialize.loads(result.value) == 2 * at
            else:
                assert result.id in tasks[::30]

    in_process.play(scenario)


# ---- taking back ------------------------------------------------------------------------------------------


def test_calls_that_have_not_begun_are_given_back(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        tasks = hub.send(ENGINE, wait_for_gate, *[(i,) for i in range(10)])
        assert begun.wait(5)
        hub.control(ENGINE, Recall(position=0, until=8))
        hub.wait(lambda: hub.recalled)
        assert hub.recalled == [Recalled(position=1, until=8)]
        gate.set()
        assert hub.value(tasks[9]) == 9
        assert sorted(hub.results) == [tasks[0], tasks[8], tasks[9]]

    in_process.play(scenario)


def test_calls_that_have_not_been_read_are_given_back(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        (first,) = hub.send(ENGINE, wait_for_gate, (0,))
        assert begun.wait(5)
        hub.control(ENGINE, Recall(position=1, until=3))
        hub.wait(lambda: hub.recalled)
        tasks = hub.send(ENGINE, wait_for_gate, *[(i,) for i in range(1, 5)])
        gate.set()
        assert hub.value(tasks[3]) == 4
        assert sorted(hub.results) == [first, tasks[2], tasks[3]]

    in_process.play(scenario)


def test_calls_that_have_begun_are_kept(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        assert hub.call(ENGINE, double, 1) == 2
        hub.control(ENGINE, Recall(position=0, until=1))
        hub.wait(lambda: hub.recalled)
        assert hub.recalled == [Recalled(position=1, until=1)]
        assert hub.call(ENGINE, double, 2) == 4

    in_process.play(scenario)


# ---- a hub that comes back --------------------------------------------------------------------------------


def test_results_are_sent_again_until_they_may_be_forgotten(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        for i in range(3):
            hub.call(ENGINE, double, i)
        hub.control(ENGINE, Forget(forget=1))
        hub.settle(0.1)
        hub.dones.clear()
        drop_links(hub)
        hub.wait(lambda: len(hub.dones) == 2)
        hello = hub.hellos[ENGINE]
        assert (hello.received, hello.holds, hello.running, hello.redelivers) == (3, [], False, 2)
        assert [done.sequence for _, done in hub.dones] == [2, 3]
        hub.send(ENGINE, double, (5,), forget=3)
        hub.wait(lambda: len(hub.dones) == 3)
        drop_links(hub)
        hub.wait(lambda: ENGINE in hub.hellos)
        assert hub.hellos[ENGINE].redelivers == 1

    in_process.play(scenario)


def test_a_new_hub_is_told_what_runs_and_what_waits(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        tasks = hub.send(ENGINE, wait_for_gate, *[(i,) for i in range(5)])
        assert begun.wait(5)
        hub.control(ENGINE, Recall(position=3, until=9))
        hub.wait(lambda: hub.recalled)
        drop_links(hub)
        hub.wait(lambda: ENGINE in hub.hellos)
        hello = hub.hellos[ENGINE]
        assert (hello.received, hello.holds, hello.running) == (5, tasks[:3], True)
        gate.set()
        assert [hub.value(task) for task in tasks[:3]] == [0, 1, 2]
        assert hub.value(hub.send(ENGINE, wait_for_gate, (6,))[0]) == 6

    in_process.play(scenario)


def test_a_break_while_idle(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        for _ in range(3):
            drop_links(hub)
            hub.wait(lambda: ENGINE in hub.hellos)
            assert hub.call(ENGINE, double, 4) == 8

    in_process.play(scenario)


def test_breaks_at_any_moment_lose_nothing_and_run_nothing_twice(in_process: InProcess) -> None:
    ran: list[int] = []

    def scenario(hub: FakeHub) -> None:
        def work(x: int) -> int:
            ran.append(x)
            return x

        answered: dict[int, int] = {}
        due = list(range(3000))
        while due:
            tasks = hub.send(ENGINE, record(work), *[(x,) for x in due])
            wanted = dict(zip(tasks, due, strict=True))
            hub.settle(0.001)
            drop_links(hub)
            hub.wait(lambda: ENGINE in hub.hellos)
            wait_until_settled(hub)
            answered.update((x, serialize.loads(hub.results[t].value)) for t, x in wanted.items() if t in hub.results)
            due = [x for t, x in wanted.items() if t not in hub.results]
        assert answered == {x: x for x in range(3000)}
        assert sorted(ran) == list(range(3000))

    in_process.play(scenario)


def wait_until_settled(hub: FakeHub) -> None:
    """Until everything has come that the engine's hello has promised."""
    hello = hub.hellos[ENGINE]
    dones = hub.dones_at_hello[ENGINE] + hello.redelivers
    hub.wait(lambda: len(hub.dones) >= dones and set(hello.holds) <= set(hub.results))


functions: dict[str, Callable[[int], int]] = {}


def record(function: Callable[[int], int]) -> Callable[[int], int]:
    """A function that reaches the engine by reference, so that it shares this process's state."""
    functions["now"] = function
    return run_recorded


def run_recorded(x: int) -> int:
    return functions["now"](x)


# ---- what cannot be told ----------------------------------------------------------------------------------


class ExitsWhenUnpickled:
    def __reduce__(self) -> tuple[object, ...]:
        return sys.exit, (3,)


class ExitsWhenPickled(Exception):
    def __reduce__(self) -> tuple[object, ...]:
        raise SystemExit(3)


class ExitsWhenLookedAt(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def raise_chain(length: int, link: str) -> None:
    error = ValueError(0)
    for number in range(1, length):
        inner, error = error, ValueError(number)
        setattr(error, link, inner)
    raise error


def raise_nested_group(depth: int) -> None:
    error: Exception = ValueError("innermost")
    for _ in range(depth):
        error = ExceptionGroup("outer", [error])
    raise error


def raise_large(size: int) -> None:
    raise ValueError("x" * size)


def raise_it(kind: type[BaseException]) -> None:
    raise kind("told")


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_chains_of_exceptions_may_be_long(in_process: InProcess, link: str) -> None:
    def scenario(hub: FakeHub) -> None:
        with pytest.raises(ValueError, match="2999"):
            hub.call(ENGINE, raise_chain, 3000, link)
        assert hub.call(ENGINE, double, 4) == 8

    in_process.play(scenario)


@pytest.mark.parametrize("kind", [ExitsWhenPickled, ExitsWhenLookedAt])
def test_exceptions_that_end_whoever_looks_at_them(in_process: InProcess, kind: type[BaseException]) -> None:
    def scenario(hub: FakeHub) -> None:
        with pytest.raises((kind, TaskError), match=r"told|ExitsWhen"):
            hub.call(ENGINE, raise_it, kind)
        assert hub.call(ENGINE, double, 4) == 8

    in_process.play(scenario)


def test_groups_of_exceptions_may_be_deep(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        with pytest.raises((ExceptionGroup, TaskError)):
            hub.call(ENGINE, raise_nested_group, 2000)
        assert hub.call(ENGINE, double, 4) == 8

    in_process.play(scenario)


def test_a_function_whose_unpickling_exits_fails_its_calls(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        trap = ExitsWhenUnpickled()

        def sprung() -> object:
            return trap

        with pytest.raises(SystemExit):
            hub.call(ENGINE, sprung)
        assert hub.call(ENGINE, double, 4) == 8

    in_process.play(scenario)


def test_results_that_no_message_can_hold(in_process: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_RESULT_BYTES", 10_000)

    def scenario(hub: FakeHub) -> None:
        with pytest.raises(SerializationError, match="result of bytes takes 20,0"):
            hub.call(ENGINE, bytes, 20_000)
        (several,) = hub.send(ENGINE, several_of, (6000,), options=TaskOptions(num_returns=2))
        with pytest.raises(SerializationError, match=r"result of several_of.* 12,0"):
            hub.value(several)
        with pytest.raises(SerializationError, match="the ValueError that the task raised"):
            hub.call(ENGINE, raise_large, 20_000)
        assert hub.call(ENGINE, double, 4) == 8

    in_process.play(scenario)


def several_of(size: int) -> tuple[bytes, bytes]:
    return bytes(size), bytes(size)
