# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Ray's pages on actors: state, order, handles, cancelling, ending, generators, options."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import fibernb as ray
from tests.integration.conftest import wait_until
from tests.ray.gates import after, open_gate, pass_gate


@ray.remote
class Counter:
    def __init__(self, value: int = 0) -> None:
        self.value = value

    def increment(self) -> int:
        self.value += 1
        return self.value

    def add(self, addition: int) -> int:
        self.value += addition
        return self.value

    def get_counter(self) -> int:
        return self.value

    def process(self) -> int:
        return os.getpid()


def gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def test_calls_share_the_state_of_their_actor() -> None:
    counters = [Counter.remote() for _ in range(10)]
    assert ray.get([counter.increment.remote() for counter in counters]) == [1] * 10
    assert ray.get([counters[0].increment.remote() for _ in range(5)]) == [2, 3, 4, 5, 6]
    assert ray.get(counters[1].get_counter.remote()) == 1


def test_each_actor_has_a_process() -> None:
    actors = [Counter.remote() for _ in range(3)]
    processes = ray.get([actor.process.remote() for actor in actors])
    assert len({os.getpid(), *processes}) == 4


def test_constructor_arguments_may_be_references() -> None:
    counter = Counter.remote(ray.put(40))
    assert ray.get(counter.add.remote(ray.put(2))) == 42
    assert ray.get(Counter.remote(value=1).increment.remote()) == 2


def test_nested_references_stay_references() -> None:
    @ray.remote
    class Keeper:
        def __init__(self, kept: list[Any]) -> None:
            self.kept = kept

        def value(self) -> Any:
            return ray.get(self.kept[0])

    keeper = Keeper.remote([ray.put("inside")])
    assert ray.get(keeper.value.remote()) == "inside"


def test_an_actor_class_cannot_be_called_directly() -> None:
    with pytest.raises(TypeError, match=r"\.remote\("):
        Counter()


def test_a_method_cannot_be_called_directly() -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError, match=r"\.remote\("):
        counter.increment()


def test_a_method_that_does_not_exist() -> None:
    counter = Counter.remote()
    with pytest.raises(AttributeError, match="increment"):
        counter.incremnt.remote()


def test_handles_are_passed_to_tasks() -> None:
    @ray.remote
    def count_to(counter: Any, times: int) -> None:
        ray.get([counter.increment.remote() for _ in range(times)])

    counter = Counter.remote()
    ray.get([count_to.remote(counter, 10) for _ in range(3)])
    assert ray.get(counter.get_counter.remote()) == 30


def test_handles_are_passed_to_actors_and_come_back() -> None:
    @ray.remote
    class Office:
        def __init__(self) -> None:
            self.counter = Counter.remote()

        def handle(self) -> Any:
            return self.counter

    office = Office.remote()
    counter = ray.get(office.handle.remote())
    assert ray.get(counter.increment.remote()) == 1
    again = ray.get(office.handle.remote())
    assert ray.get(again.increment.remote()) == 2


def test_calls_of_one_caller_keep_their_order() -> None:
    counter = Counter.remote()
    assert ray.get([counter.add.remote(number) for number in range(1, 1001)])[-1] == 500_500


def test_a_late_argument_holds_up_its_own_caller_only(tmp_path: Path) -> None:
    @ray.remote
    def submit(counter: Any, values: list[Any]) -> int:
        return int(ray.get(counter.add.remote(values[0])))

    gate = str(tmp_path / "gate")
    counter = Counter.remote()
    late = submit.remote(counter, [after.remote(gate, 1)])
    assert ray.get(submit.remote(counter, [ray.put(2)]), timeout=20) == 2
    open_gate(gate)
    assert ray.get(late, timeout=20) == 3


def test_several_values_of_a_method() -> None:
    @ray.remote
    class Splitter:
        @ray.method(num_returns=2)
        def split(self, text: str) -> tuple[str, str]:
            return text[0], text[1:]

    head, tail = Splitter.remote().split.remote("abc")
    assert ray.get([head, tail]) == ["a", "bc"]


def test_a_queued_call_is_cancelled(tmp_path: Path) -> None:
    @ray.remote
    class Patient:
        def wait(self, gate: str) -> None:
            pass_gate(gate)

    gate = str(tmp_path / "gate")
    patient = Patient.remote()
    first, second = patient.wait.remote(gate), patient.wait.remote(gate)
    ray.cancel(second)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(second, timeout=20)
    open_gate(gate)
    assert ray.get(first, timeout=20) is None


def test_a_running_call_is_interrupted(tmp_path: Path) -> None:
    @ray.remote
    class Sleeper:
        def __init__(self) -> None:
            self.woken = 0

        def sleep(self, begun: str) -> None:
            try:
                open_gate(begun)
                time.sleep(60)
            finally:
                self.woken += 1

        def count(self) -> int:
            return self.woken

    begun = str(tmp_path / "begun")
    sleeper = Sleeper.remote()
    ref = sleeper.sleep.remote(begun)
    pass_gate(begun)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=20)
    assert ray.get(sleeper.count.remote(), timeout=20) == 1, "the actor and its state are still there"


def test_an_exception_leaves_the_actor_alive() -> None:
    @ray.remote
    class Fragile:
        def fail(self) -> None:
            raise KeyError("missing")

        def work(self) -> str:
            return "fine"

    fragile = Fragile.remote()
    with pytest.raises(KeyError, match="missing"):
        ray.get(fragile.fail.remote())
    assert ray.get(fragile.work.remote()) == "fine"


def test_a_constructor_that_fails() -> None:
    @ray.remote
    class Broken:
        def __init__(self) -> None:
            raise RuntimeError("no such device")

        def work(self) -> None:
            return None

    with pytest.raises(ray.exceptions.RayActorError, match="no such device"):
        ray.get(Broken.remote().work.remote(), timeout=20)


def test_an_actor_ends_with_its_last_handle() -> None:
    counter = Counter.remote()
    pid = ray.get(counter.process.remote())
    result = counter.increment.remote()
    del counter
    assert ray.get(result) == 1
    wait_until(lambda: gone(pid))


def test_kill() -> None:
    counter = Counter.remote()
    pid = ray.get(counter.process.remote())
    ray.kill(counter)
    with pytest.raises(ray.exceptions.RayActorError, match="kill"):
        ray.get(counter.increment.remote(), timeout=20)
    wait_until(lambda: gone(pid))


def test_an_actor_exits_by_itself() -> None:
    @ray.remote
    class Tired:
        def work(self) -> int:
            return os.getpid()

        def leave(self) -> None:
            ray.actor.exit_actor()

    tired = Tired.remote()
    pid = ray.get(tired.work.remote())
    with pytest.raises(ray.exceptions.RayActorError, match="exit"):
        ray.get(tired.leave.remote(), timeout=20)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(tired.work.remote(), timeout=20)
    wait_until(lambda: gone(pid))


def test_context_of_an_actor() -> None:
    @ray.remote
    class Aware:
        def ids(self) -> tuple[Any, Any]:
            context = ray.get_runtime_context()
            return context.get_actor_id(), context.get_task_id()

        def myself(self) -> Any:
            return ray.get_runtime_context().current_actor

        def number(self) -> int:
            return 7

    aware = Aware.remote()
    first, second = ray.get([aware.ids.remote(), aware.ids.remote()])
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert ray.get_runtime_context().get_actor_id() is None
    assert ray.get(ray.get(aware.myself.remote()).number.remote()) == 7


def test_an_actor_class_made_without_a_decorator() -> None:
    class Plain:
        def double(self, value: int) -> int:
            return 2 * value

    assert ray.get(ray.remote(Plain).remote().double.remote(4)) == 8
    assert ray.get(ray.remote(num_cpus=1)(Plain).remote().double.remote(5)) == 10
    assert Plain().double(3) == 6


def test_actor_classes_inherit() -> None:
    class Base:
        def name(self) -> str:
            return "base"

        def greeting(self) -> str:
            return f"I am {self.name()}"

    @ray.remote
    class Derived(Base):
        def name(self) -> str:
            return "derived"

    assert ray.get(Derived.remote().greeting.remote()) == "I am derived"


def test_many_actors_at_once() -> None:
    counters = [Counter.options(num_cpus=0).remote() for _ in range(20)]
    assert ray.get([counter.increment.remote() for counter in counters], timeout=60) == [1] * 20


def test_an_actor_works_while_its_caller_does_something_else() -> None:
    @ray.remote
    class Slow:
        def step(self) -> float:
            time.sleep(0.05)
            return time.monotonic()

    slow = Slow.remote()
    ray.get(slow.step.remote())
    step = slow.step.remote()
    between = time.monotonic()
    assert ray.get(step) >= between


def test_an_actor_is_ready() -> None:
    counter = Counter.remote()
    ready, _ = ray.wait([counter.__ray_ready__.remote()], timeout=20)
    assert ready


def test_an_actor_cleans_up(tmp_path: Path) -> None:
    @ray.remote
    class Tidy:
        def __init__(self, path: str) -> None:
            self.path = path

        def process(self) -> int:
            return os.getpid()

        def __ray_shutdown__(self) -> None:
            open_gate(self.path)

    dropped, terminated, killed = (str(tmp_path / name) for name in ("dropped", "terminated", "killed"))
    tidy = Tidy.remote(dropped)
    ray.get(tidy.process.remote())
    del tidy
    wait_until(lambda: os.path.exists(dropped))

    tidy = Tidy.remote(terminated)
    tidy.__ray_terminate__.remote()
    wait_until(lambda: os.path.exists(terminated))

    tidy = Tidy.remote(killed)
    pid = ray.get(tidy.process.remote())
    ray.kill(tidy)
    wait_until(lambda: gone(pid))
    assert not os.path.exists(killed)


def test_too_many_pending_calls(tmp_path: Path) -> None:
    @ray.remote
    class Slow:
        def wait(self, gate: str) -> None:
            pass_gate(gate)

    gate = str(tmp_path / "gate")
    slow = Slow.options(max_pending_calls=3).remote()
    calls = [slow.wait.remote(gate) for _ in range(3)]
    with pytest.raises(ray.exceptions.PendingCallsLimitExceeded):
        slow.wait.remote(gate)
    open_gate(gate)
    ray.get(calls, timeout=20)
    assert ray.get(slow.wait.remote(gate), timeout=20) is None


# ---- waiting for oneself ------------------------------------------------------------------------------------


@ray.remote(num_cpus=0)
class Introvert:
    def __init__(self) -> None:
        self.kept: Any = None
        self.reads = 0

    def read(self) -> int:
        self.reads += 1
        return 5

    def count(self) -> int:
        return self.reads

    def itself(self) -> Any:
        return ray.get_runtime_context().current_actor

    def asks_itself(self) -> int:
        return int(ray.get(self.itself().read.remote()))

    def asks_itself_for_a_while(self) -> str:
        try:
            return str(ray.get([self.itself().read.remote()], timeout=0.05))
        except ray.exceptions.GetTimeoutError:
            return "in vain"

    def begins(self) -> None:
        self.kept = self.itself().read.remote()

    def ends(self) -> int:
        return int(ray.get(self.kept))

    def has_a_thread_ask(self) -> None:
        answer: list[int] = []
        thread = threading.Thread(target=lambda: answer.append(self.asks_itself()))
        thread.start()
        self.kept = (thread, answer)

    def joins(self) -> list[int]:
        self.kept[0].join()
        return list(self.kept[1])


def test_an_actor_that_would_wait_for_itself_for_ever_is_told() -> None:
    actor = Introvert.remote()
    with pytest.raises(
        ray.exceptions.TaskUnschedulableError, match=r"asks_itself would wait for ever.*Introvert\.read"
    ):
        ray.get(actor.asks_itself.remote())
    assert ray.get(actor.read.remote()) == 5


def test_what_need_not_wait_for_ever_is_left_to_wait() -> None:
    actor = Introvert.remote()
    assert ray.get(actor.asks_itself_for_a_while.remote()) == "in vain"
    wait_until(lambda: ray.get(actor.count.remote()) == 1)
    ray.get(actor.begins.remote())
    wait_until(lambda: ray.get(actor.count.remote()) == 2)
    assert ray.get(actor.ends.remote()) == 5, "it was submitted by a call before, and has run"
    ray.get(actor.has_a_thread_ask.remote())
    wait_until(lambda: ray.get(actor.count.remote()) == 3)
    assert ray.get(actor.joins.remote()) == [5], "a thread of the user's may wait beyond the call"
    assert ray.get(Introvert.options(max_concurrency=2).remote().asks_itself.remote()) == 5
