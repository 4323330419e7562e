# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Ray's utilities: pools, queues, the state API, the timeline, the tree of exceptions."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import fibernb as ray
from fibernb.util import state
from fibernb.util.queue import Empty, Full, Queue
from tests.integration.conftest import wait_until
from tests.ray.gates import after


@ray.remote
class Doubler:
    def double(self, value: int) -> int:
        return 2 * value


def test_actor_pool_in_order() -> None:
    pool = ray.util.ActorPool([Doubler.remote() for _ in range(2)])
    assert list(pool.map(lambda actor, value: actor.double.remote(value), range(8))) == [2 * x for x in range(8)]


def test_actor_pool_in_any_order() -> None:
    pool = ray.util.ActorPool([Doubler.remote() for _ in range(2)])
    results = pool.map_unordered(lambda actor, value: actor.double.remote(value), range(8))
    assert sorted(results) == [2 * x for x in range(8)]


def test_actor_pool_by_hand() -> None:
    pool = ray.util.ActorPool([Doubler.remote()])
    assert pool.has_free()
    pool.submit(lambda actor, value: actor.double.remote(value), 1)
    pool.submit(lambda actor, value: actor.double.remote(value), 2)
    assert not pool.has_free()
    assert pool.has_next()
    assert [pool.get_next(), pool.get_next()] == [2, 4]
    assert not pool.has_next()
    with pytest.raises(StopIteration):
        pool.get_next()
    actor = pool.pop_idle()
    assert actor is not None
    assert pool.pop_idle() is None
    pool.push(actor)
    assert pool.has_free()


def test_a_queue_between_tasks() -> None:
    @ray.remote
    def consume(queue: Any, count: int) -> list[int]:
        return [queue.get(block=True) for _ in range(count)]

    queue = Queue(maxsize=100)
    consumers = [consume.remote(queue, 10) for _ in range(2)]
    for number in range(20):
        queue.put(number)
    first, second = ray.get(consumers, timeout=30)
    assert sorted(first + second) == list(range(20))
    queue.shutdown()


def test_a_queue_is_a_queue() -> None:
    queue = Queue(maxsize=2)
    assert queue.empty()
    queue.put(1)
    queue.put_nowait(2)
    assert queue.full()
    assert queue.qsize() == 2
    with pytest.raises(Full):
        queue.put_nowait(3)
    with pytest.raises(Full):
        queue.put(3, timeout=0.05)
    assert [queue.get(), queue.get_nowait()] == [1, 2]
    with pytest.raises(Empty):
        queue.get(timeout=0.05)
    queue.put_nowait_batch([4, 5])
    assert queue.get_nowait_batch(2) == [4, 5]
    queue.shutdown(force=True)


def test_as_completed_and_map_unordered() -> None:
    @ray.remote
    def square(number: int) -> int:
        return number * number

    refs = [square.remote(number) for number in range(10)]
    assert sorted(ray.util.as_completed(refs)) == [number**2 for number in range(10)]
    assert sorted(ray.util.map_unordered(square, range(10))) == [number**2 for number in range(10)]


# ---- seeing -------------------------------------------------------------------------------------------------


def test_state_of_tasks() -> None:
    @ray.remote
    def seen() -> int:
        return 1

    ray.get([seen.remote() for _ in range(5)])
    wait_until(lambda: "seen" in json.dumps(state.summarize_tasks(), default=str))
    assert any("seen" in str(row["name"]) for row in state.list_tasks())


def test_state_of_actors() -> None:
    doubler = Doubler.options(name="listed").remote()
    ray.get(doubler.double.remote(1))
    rows = [row for row in state.list_actors() if row["name"] == "listed"]
    assert [(row["class_name"], row["state"]) for row in rows] == [("Doubler", "ALIVE")]
    wait_until(lambda: state.list_tasks(filters=[("actor_id", "=", rows[0]["actor_id"]), ("state", "=", "FINISHED")]))
    assert state.summarize_tasks()["cluster"]["total_actor_tasks"] > 0
    ray.kill(doubler)
    wait_until(lambda: not [r for r in state.list_actors() if r["name"] == "listed" and r["state"] == "ALIVE"])


def test_state_of_tasks_that_failed() -> None:
    """Also those that no worker has answered."""

    @ray.remote(max_retries=0)
    def dies() -> None:
        os._exit(3)

    @ray.remote
    def sleeps() -> None:
        time.sleep(300)

    cancelled = sleeps.options(name="cancelled").remote()
    ray.cancel(cancelled, force=True)
    large = sleeps.options(name="large", num_cpus=1000).remote()
    for ref in (dies.options(name="died").remote(), large, cancelled):
        with pytest.raises(ray.exceptions.RayError):
            ray.get(ref, timeout=30)

    @ray.remote
    def fails(number: int) -> None:
        raise ValueError(f"bad {number}\nand more")

    with pytest.raises(ValueError, match="bad 7"):
        ray.get(fails.remote(7))
    rows = {row["name"]: row for row in state.list_tasks(limit=1000)}
    states = {name: row["state"] for name, row in rows.items()}
    assert (states["died"], states["large"], states["cancelled"]) == ("FAILED", "FAILED", "CANCELLED")
    failed = next(row for name, row in rows.items() if name.endswith("fails"))
    assert (failed.state, failed.error) == ("FAILED", "ValueError: bad 7")
    assert rows["died"].error.startswith("WorkerDied: ")
    assert rows["large"].error.startswith("TaskUnschedulable: ")
    assert state.summarize_tasks()["cluster"]["summary"][failed.name]["errors"] == {"ValueError: bad 7": 1}


def test_what_waits_says_why() -> None:
    refs = [after.options(num_cpus=4).remote("a gate that stays closed") for _ in range(2)]
    wait_until(lambda: state.list_tasks(filters=[("state", "=", "RUNNING")]))
    (row,) = state.list_tasks(filters=[("state", "=", "QUEUED")])
    assert row.why == "4 cpus on one node"
    for ref in refs:
        ray.cancel(ref, force=True)


def test_actors_that_have_ended_are_remembered() -> None:
    doubler = Doubler.options(name="remembered").remote()
    ray.get(doubler.double.remote(1))
    del doubler

    def ended() -> list[Any]:
        rows = state.list_actors(filters=[("name", "=", "remembered"), ("state", "=", "DEAD")])
        return [row.ended for row in rows]

    wait_until(ended)
    assert ended() == ["nobody held it any more"]


def test_state_of_the_rest() -> None:
    ref = ray.put(b"x" * 1_000_000)
    large = [row for row in state.list_objects() if row["object_size"] >= 1_000_000]
    assert [row["made_by"] for row in large] == ["put"]
    assert state.summarize_objects()["cluster"]["summary"]["put"]["state_counts"] == {"READY": 1}
    assert len(state.list_nodes()) == 1
    assert len(state.list_workers()) >= 4
    group = ray.util.placement_group([{"CPU": 1}])
    assert group.wait(20)
    assert [row["state"] for row in state.list_placement_groups()] == ["CREATED"]
    ray.util.remove_placement_group(group)
    del ref


def test_timeline(tmp_path: Path) -> None:
    @ray.remote
    def traced() -> int:
        return 1

    ray.get([traced.remote() for _ in range(3)])
    path = tmp_path / "trace.json"

    def names() -> list[str]:
        ray.timeline(str(path))
        return [event["name"] for event in json.loads(path.read_text())]

    wait_until(lambda: any("traced" in name for name in names()))
    events = ray.timeline()
    assert events is not None
    assert any("traced" in event["name"] for event in events)


def test_the_timeline_tells_what_has_waited(tmp_path: Path) -> None:
    go_on = tmp_path / "go on"

    @ray.remote
    def waited_for() -> int:
        wait_until(go_on.exists)
        return 1

    @ray.remote
    def waiting() -> int:
        return int(ray.get(waited_for.remote()))

    @ray.remote(num_cpus=0)
    class Asking:
        def asks(self) -> int:
            return int(ray.get(waited_for.remote()))

    def blocked() -> set[str]:
        return {event["name"].split(".")[-1] for event in ray.timeline() or [] if event.get("cat") == "blocked"}

    actor = Asking.remote()
    calls = [waiting.remote(), actor.asks.remote()]
    wait_until(lambda: blocked() >= {"waiting", "asks"})
    go_on.touch()
    assert ray.get(calls) == [1, 1]
    assert blocked() >= {"waiting", "asks"}


# ---- names of errors ----------------------------------------------------------------------------------------


def test_errors_have_rays_names() -> None:
    errors = ray.exceptions
    assert issubclass(errors.GetTimeoutError, errors.RayError)
    assert issubclass(errors.GetTimeoutError, TimeoutError)
    assert issubclass(errors.ActorDiedError, errors.RayActorError)
    for name in (
        "RayTaskError",
        "TaskCancelledError",
        "TaskUnschedulableError",
        "WorkerCrashedError",
        "ObjectStoreFullError",
        "ObjectLostError",
        "OutOfMemoryError",
        "RuntimeEnvSetupError",
        "ActorAlreadyExistsError",
    ):
        assert issubclass(getattr(errors, name), errors.RayError), name


def test_ray_task_error() -> None:
    """Both classes match: the exception's own, and Ray's."""

    @ray.remote
    def fail() -> None:
        raise ValueError("both")

    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(fail.remote())
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value.cause, ValueError)
    with pytest.raises(ValueError, match="both"):
        ray.get(fail.remote())


def test_inspect_serializability() -> None:
    lock = threading.Lock()

    def use() -> None:
        print(lock)

    serializable, failures = ray.util.inspect_serializability(use, name="use")
    assert not serializable
    assert any(failure.obj is lock for failure in failures)
    assert ray.util.inspect_serializability(len)[0]
