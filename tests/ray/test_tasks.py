# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Ray's pages on tasks: arguments, waiting, several values, options, cancelling, tasks inside of tasks."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

import fibernb as ray
from tests.integration.conftest import wait_until
from tests.ray.gates import after, open_gate, pass_gate


@ray.remote
def one() -> int:
    return 1


@ray.remote
def plus_one(value: int) -> int:
    return value + 1


def test_calls_run_side_by_side(tmp_path: Path) -> None:
    @ray.remote
    def meet(number: int, place: str) -> int:
        """Ends only when the others run too."""
        open_gate(f"{place}/{number}")
        for other in range(4):
            pass_gate(f"{place}/{other}")
        return number

    assert ray.get([meet.remote(number, str(tmp_path)) for number in range(4)], timeout=30) == [0, 1, 2, 3]


def test_a_remote_function_is_not_called_directly() -> None:
    with pytest.raises(TypeError, match=r"\.remote\("):
        one()


def test_a_reference_as_argument_becomes_its_value() -> None:
    first = one.remote()
    assert ray.get(plus_one.remote(first)) == 2


def test_a_task_waits_for_its_arguments(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    late = after.remote(gate, 5)
    more = plus_one.remote(late)
    assert ray.wait([more], timeout=0.1) == ([], [more])
    open_gate(gate)
    assert ray.get(more) == 6


def test_keyword_arguments_are_values_too() -> None:
    @ray.remote
    def power(base: int, *, exponent: int = 2) -> int:
        return int(base**exponent)

    assert ray.get(power.remote(3, exponent=plus_one.remote(2))) == 27


def test_wait_gives_what_is_ready(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    late, soon = after.remote(gate), one.remote()
    ready, rest = ray.wait([late, soon], num_returns=1, timeout=None)
    assert (ready, rest) == ([soon], [late])
    open_gate(gate)
    assert ray.wait([late, soon], num_returns=2) == ([late, soon], [])


def test_wait_says_what_is_wrong() -> None:
    ref = one.remote()
    with pytest.raises(ValueError, match=r"twice|duplicate|more than once|unique"):
        ray.wait([ref, ref])
    with pytest.raises(ValueError, match="num_returns"):
        ray.wait([ref], num_returns=2)
    with pytest.raises(TypeError):
        ray.wait(ref)


def test_several_values() -> None:
    @ray.remote(num_returns=3)
    def three() -> tuple[int, int, int]:
        return 0, 1, 2

    first, second, third = three.remote()
    assert ray.get([third, first, second]) == [2, 0, 1]


def test_several_values_of_a_generator() -> None:
    @ray.remote(num_returns=3)
    def count() -> Any:
        yield from range(3)

    assert ray.get(count.remote()) == [0, 1, 2]


def test_no_value() -> None:
    @ray.remote(num_returns=0)
    def nothing() -> None:
        return None

    assert not nothing.remote()


def test_the_wrong_number_of_values_is_an_error() -> None:
    @ray.remote(num_returns=2)
    def three() -> tuple[int, int, int]:
        return 0, 1, 2

    for ref in three.remote():
        with pytest.raises(ValueError, match="3"):
            ray.get(ref)


def test_options_of_one_call() -> None:
    @ray.remote
    def pair() -> tuple[int, int]:
        return 1, 2

    first, second = pair.options(num_returns=2, name="split").remote()
    assert ray.get(pair.remote()) == (1, 2)
    assert (ray.get(first), ray.get(second)) == (1, 2)


@pytest.mark.parametrize(
    ("option", "value"),
    [("num_cpus", -1), ("num_gpus", -0.5), ("memory", -1), ("num_returns", -3), ("max_retries", -2), ("max_calls", -1)],
)
def test_options_that_cannot_be(option: str, value: float) -> None:
    with pytest.raises(ValueError, match=option):
        ray.remote(**{option: value})(abs)


def test_an_option_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="num_cpus"):
        ray.remote(num_cpu=1)(abs)


def test_a_task_that_waits_is_cancelled(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    waiting = plus_one.remote(after.remote(gate, 1))
    ray.cancel(waiting)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(waiting)
    open_gate(gate)


def test_a_task_that_runs_is_interrupted(tmp_path: Path) -> None:
    begun = str(tmp_path / "begun")

    @ray.remote
    def sleep_long() -> None:
        open_gate(begun)
        time.sleep(60)

    ref = sleep_long.remote()
    pass_gate(begun)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=20)


def test_a_task_that_does_not_listen_is_forced(tmp_path: Path) -> None:
    begun = str(tmp_path / "begun")

    @ray.remote
    def deaf() -> None:
        open_gate(begun)
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                time.sleep(60)

    ref = deaf.remote()
    pass_gate(begun)
    ray.cancel(ref, force=True)
    with pytest.raises((ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError)):
        ray.get(ref, timeout=20)


def test_a_task_is_cancelled_with_those_it_has_started(tmp_path: Path) -> None:
    begun, survived = str(tmp_path / "begun"), str(tmp_path / "survived")

    @ray.remote
    def child() -> None:
        open_gate(begun)
        time.sleep(60)
        open_gate(survived)

    @ray.remote
    def parent() -> None:
        ray.get(child.remote())

    ref = parent.remote()
    pass_gate(begun)
    ray.cancel(ref, recursive=True)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=20)
    wait_until(lambda: ray.available_resources().get("CPU", 0) == 4)
    assert not os.path.exists(survived)


def test_a_task_starts_tasks_and_gives_their_references() -> None:
    @ray.remote
    def four_references() -> list[Any]:
        return [one.remote() for _ in range(4)]

    @ray.remote
    def four_values() -> list[int]:
        return list(ray.get([one.remote() for _ in range(4)]))

    references = ray.get(four_references.remote())
    assert all(isinstance(reference, ray.ObjectRef) for reference in references)
    assert ray.get(references) == [1, 1, 1, 1]
    assert ray.get(four_values.remote()) == [1, 1, 1, 1]


def test_a_task_that_waits_lends_its_place() -> None:
    @ray.remote
    def depth(levels: int) -> int:
        return 0 if levels == 0 else 1 + int(ray.get(depth.remote(levels - 1)))

    assert ray.get([depth.remote(6) for _ in range(6)], timeout=60) == [6] * 6


def test_the_shape_of_a_graph_follows_results() -> None:
    @ray.remote
    def collatz(number: int, steps: int = 0) -> Any:
        if number == 1:
            return steps
        return collatz.remote(number // 2 if number % 2 == 0 else 3 * number + 1, steps + 1)

    answer = ray.get(collatz.remote(6))
    while isinstance(answer, ray.ObjectRef):
        answer = ray.get(answer)
    assert answer == 8


def test_a_worker_is_replaced_after_max_calls() -> None:
    @ray.remote(max_calls=1)
    def process() -> int:
        return os.getpid()

    assert len({ray.get(process.remote()) for _ in range(3)}) == 3


def test_callbacks_and_futures() -> None:
    done = threading.Event()
    ref = one.remote()
    ref.add_done_callback(lambda _: done.set())
    assert ref.future().result(timeout=20) == 1
    assert ref.result(timeout=20) == 1
    assert done.wait(20)


def test_get_takes_references_only() -> None:
    with pytest.raises(TypeError, match="ObjectRef"):
        ray.get(cast("Any", 3))
    with pytest.raises(TypeError, match="ObjectRef"):
        ray.get([one.remote(), 3])


def test_get_has_a_time_limit(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    ref = after.remote(gate, 1)
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(ref, timeout=0.05)
    with pytest.raises(TimeoutError):
        ray.get(ref, timeout=0.05)
    open_gate(gate)
    assert ray.get(ref, timeout=20) == 1


def test_where_a_task_runs() -> None:
    @ray.remote
    def context() -> tuple[Any, ...]:
        here = ray.get_runtime_context()
        return here.get_task_id(), here.get_worker_id(), here.get_node_id()

    task, worker, node = ray.get(context.remote())
    assert task is not None
    assert worker != ray.get_runtime_context().get_worker_id()
    assert node == ray.get_runtime_context().get_node_id() == ray.nodes()[0]["NodeID"]


def test_a_task_follows_the_helper_it_reads() -> None:
    """As in a notebook: what a function reads travels with it, and again when it has changed."""
    namespace: dict[str, Any] = {"ray": ray}
    exec("def helper(): return 1\n@ray.remote\ndef use(): return helper()", namespace)
    assert ray.get(namespace["use"].remote()) == 1


def test_options_that_change_nothing() -> None:
    assert ray.get(one.options(enable_task_events=False).remote()) == 1
