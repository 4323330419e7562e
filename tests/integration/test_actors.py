"""Actors and what stands on them, on a cluster of this machine, as a script uses them."""

from __future__ import annotations

import asyncio
import importlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fibernb as fnb
from fibernb.errors import ActorDied, ConfigError, EnvironmentFailed, TaskUnschedulable
from fibernb.util import ActorPool, Empty, Full, Queue, list_named_actors, placement_group, remove_placement_group
from fibernb.util import state as states
from fibernb.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy
from tests.integration.conftest import wait_until


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[fnb.Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        cluster = fnb.init(
            num_cpus=2,
            num_gpus=2,
            resources={"licence": 1},
            namespace="here",
            runtime_dir=str(tmp_path_factory.mktemp("run")),
        )
        yield cluster
        fnb.shutdown()


def get(ref: Any) -> Any:
    return fnb.get(ref, timeout=30)


@fnb.remote
class CountingActor:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, amount: int = 1) -> int:
        self.value += amount
        return self.value

    def count_to(self, number: int) -> Iterator[int]:
        yield from range(number)

    def die(self) -> None:
        os._exit(1)

    def leave(self) -> None:
        from fibernb.actor import exit_actor

        exit_actor()

    def context(self) -> dict[str, Any]:
        here = fnb.get_runtime_context()
        return {
            **here.get(),
            "actor": here.get_actor_name(),
            "self": here.current_actor,
            "restarted": here.was_current_actor_reconstructed,
            "gpus": fnb.get_gpu_ids(),
            "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        }


Counter: Any = CountingActor


@fnb.remote
class WaitingActor:
    async def wait(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def items(self, number: int) -> AsyncIterator[int]:
        for item in range(number):
            await asyncio.sleep(0)
            yield item


Waiter: Any = WaitingActor  # a type checker takes no notice of what decorates a class


def test_calls_of_one_caller_run_in_order() -> None:
    counter = Counter.remote(5)
    assert get([counter.add.remote() for _ in range(500)]) == list(range(6, 506))
    assert [get(ref) for ref in counter.count_to.remote(3)] == [0, 1, 2]


def test_a_handle_works_in_a_task() -> None:
    counter = Counter.remote()

    @fnb.remote
    def use(handles: list[Any]) -> int:
        return int(fnb.get(handles[0].add.remote(10)))

    assert get(use.remote([counter])) == 10
    assert get(counter.add.remote()) == 11


def test_coroutines_run_together() -> None:
    waiter = Waiter.remote()
    get(waiter.__ray_ready__.remote())
    begun = time.monotonic()
    assert get([waiter.wait.remote(1.0) for _ in range(100)]) == [1.0] * 100
    assert time.monotonic() - begun < 50, "one after the other takes 100 s"
    assert [get(ref) for ref in waiter.items.remote(3)] == [0, 1, 2]


def test_what_an_actor_knows_of_itself(cluster: fnb.Cluster) -> None:
    counter = Counter.options(name="known", num_gpus=1).remote()
    told = get(counter.context.remote())
    assert (told["actor"], told["namespace"], told["self"] == counter) == ("known", "here", True)
    assert told["visible"] == str(told["gpus"][0])
    row = states.get_actor(told["actor_id"])
    assert row is not None
    assert (row.state, row.name, row.ray_namespace) == ("ALIVE", "known", "here")
    assert told["node_id"] == fnb.nodes()[0]["NodeID"]
    on_that_node = NodeAffinitySchedulingStrategy(told["node_id"], soft=False)
    assert get(fnb.remote(abs).options(scheduling_strategy=on_that_node).remote(-3)) == 3


def test_names_hold_in_a_namespace_for_tasks_too() -> None:
    counter = Counter.options(name="found").remote()

    @fnb.remote
    def find() -> Any:
        return fnb.get_actor("found"), fnb.get_runtime_context().namespace

    assert get(find.remote()) == (counter, "here")
    assert "found" in list_named_actors()
    assert {"name": "found", "namespace": "here"} in list_named_actors(all_namespaces=True)
    with pytest.raises(ValueError, match="no actor named"):
        fnb.get_actor("found", namespace="elsewhere")


def test_a_taken_name() -> None:
    first = Counter.options(name="taken").remote(1)
    with pytest.raises(ConfigError, match=r"kill\(get_actor\('taken'\)\)"):
        Counter.options(name="taken").remote()
    assert Counter.options(name="taken", get_if_exists=True).remote() == first
    second = Counter.options(name="taken", replace=True).remote(10)
    assert get(second.add.remote()) == 11
    with pytest.raises(ActorDied):
        get(first.add.remote())


def test_ends() -> None:
    counter = Counter.remote()
    with pytest.raises(ActorDied, match="exit_actor"):
        get(counter.leave.remote())
    counter = Counter.remote()
    done = counter.add.remote()
    with pytest.raises(ActorDied, match="terminate"):
        get(counter.__ray_terminate__.remote())
    assert get(done) == 1
    counter = Counter.remote()
    fnb.kill(counter)
    with pytest.raises(ActorDied, match="killed"):
        get(counter.add.remote())


@pytest.mark.parametrize(
    "find",
    [lambda: fnb.get_actor("sought"), lambda: Counter.options(name="sought", get_if_exists=True).remote()],
    ids=["get_actor", "get_if_exists"],
)
def test_looking_for_an_actor_does_not_keep_it(find: Callable[[], object]) -> None:
    actor = Counter.options(name="sought").remote()
    assert get(actor.add.remote()) == 1
    find()  # before the last handle goes: the actor may be gone as soon as that has
    del actor
    wait_until(lambda: not states.list_actors(filters=[("name", "=", "sought"), ("state", "!=", "DEAD")]))


def test_edited_modules_reach_the_actors_that_are_made_afterwards(
    cluster: fnb.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    cluster.adopt()
    module = tmp_path / "module_of_actors.py"
    module.write_text("def f(): return 1\n")

    class Reader:
        def read(self) -> object:
            return importlib.import_module("module_of_actors").f()

    readers: Any = fnb.remote(Reader)
    old = readers.remote()
    assert get(old.read.remote()) == 1
    module.write_text("def f(): return 22\n")
    new = readers.remote()
    assert get([new.read.remote(), old.read.remote()]) == [22, 1]


def test_restarts() -> None:
    counter = Counter.options(max_restarts=1, max_task_retries=-1).remote()
    assert get([counter.add.remote(), counter.add.remote()]) == [1, 2]
    fnb.kill(counter, no_restart=False)
    assert get(counter.add.remote()) == 1
    assert get(counter.context.remote())["restarted"]


def test_a_pool_of_actors() -> None:
    pool = ActorPool([Counter.remote() for _ in range(2)])
    assert list(pool.map(lambda actor, value: actor.add.remote(value), [1, 2])) == [1, 2]
    assert len(list(pool.map_unordered(lambda actor, value: actor.add.remote(value), range(5)))) == 5


def test_a_queue_between_tasks() -> None:
    line = Queue(maxsize=2)

    @fnb.remote
    def produce(line: Queue, number: int) -> None:
        for item in range(number):
            line.put(item)

    done = produce.remote(line, 6)
    assert [line.get(timeout=30) for _ in range(6)] == list(range(6))
    get(done)
    line.put_nowait_batch([1, 2])
    assert (len(line), line.full()) == (2, True)
    with pytest.raises(Full):
        line.put_nowait(3)
    assert line.get_nowait_batch(2) == [1, 2]
    assert line.empty()
    with pytest.raises(Empty):
        line.get(timeout=0.05)
    assert asyncio.run(_through(line)) == "x"
    line.shutdown()


async def _through(line: Queue) -> Any:
    await line.put_async("x")
    return await line.get_async()


def test_placement_groups() -> None:
    group = placement_group([{"CPU": 1}])
    assert group.wait(30)
    strategy = PlacementGroupSchedulingStrategy(group)

    @fnb.remote(scheduling_strategy=strategy)
    def inside() -> str | None:
        return fnb.get_runtime_context().get_placement_group_id()

    assert get(inside.remote()) == group.id
    remove_placement_group(group)
    with pytest.raises(TaskUnschedulable):
        get(placement_group([{"CPU": 1000}]).ready())


def test_dynamic_generators() -> None:
    @fnb.remote(num_returns="dynamic")
    def numbers(count: int) -> Iterator[int]:
        yield from range(count)

    refs = get(numbers.remote(3))
    assert len(refs) == 3
    assert get(list(refs)) == [0, 1, 2]
    assert get(refs[1]) == 1


def test_an_environment_of_local_directories(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/data.txt").write_text("content")
    (tmp_path / "work/secret.txt").write_text("secret")
    (tmp_path / "helper").mkdir()
    (tmp_path / "helper/__init__.py").write_text("VALUE = 42\n")
    environment = {
        "env_vars": {"COLOUR": "red"},
        "working_dir": str(tmp_path / "work"),
        "py_modules": [str(tmp_path / "helper")],
        "excludes": ["secret.*"],
    }

    @fnb.remote(runtime_env=environment)
    class Within:
        def look(self) -> tuple[Any, ...]:
            import helper  # type: ignore[import-not-found]

            return os.environ["COLOUR"], sorted(os.listdir()), Path("data.txt").read_text(), helper.VALUE

    within: Any = Within  # as above
    within = within.remote()
    assert get(within.look.remote()) == ("red", ["data.txt"], "content", 42)

    @fnb.remote
    def colour() -> str | None:
        return os.environ.get("COLOUR")

    red = colour.options(runtime_env={"env_vars": {"COLOUR": "blue"}})
    assert get([colour.remote(), red.remote()]) == [None, "blue"]


def test_an_environment_that_cannot_be_made_fails_its_calls() -> None:
    @fnb.remote(runtime_env={"pip": ["no such requirement, at all"]}, max_retries=0)
    def never() -> None:
        """Nothing."""

    with pytest.raises(EnvironmentFailed):
        fnb.get(never.remote(), timeout=60)


def test_except_clauses_of_ray() -> None:
    @fnb.remote
    def fail() -> None:
        raise KeyError("k")

    caught: list[BaseException] = []
    try:
        get(fail.remote())
    except fnb.exceptions.RayTaskError as error:
        caught.append(error)
    with pytest.raises(KeyError) as found:
        get(fail.remote())
    assert isinstance(caught[0], KeyError)
    assert isinstance(found.value, fnb.exceptions.RayTaskError)
