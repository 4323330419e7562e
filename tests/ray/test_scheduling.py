# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Ray's pages on scheduling: resources, accelerators, strategies, placement groups, environments."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

import fibernb as ray
from fibernb.util.placement_group import placement_group, placement_group_table, remove_placement_group
from fibernb.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy
from tests.integration.conftest import Place, wait_until
from tests.ray.gates import open_gate, pass_gate


@ray.remote
def hold(begun: str, gate: str) -> bool:
    open_gate(begun)
    pass_gate(gate)
    return True


def gates(place: Path, count: int) -> list[str]:
    return [str(place / f"begun-{number}") for number in range(count)]


# ---- resources ----------------------------------------------------------------------------------------------


def test_a_custom_resource_bounds_what_runs(tmp_path: Path) -> None:
    begun, gate = gates(tmp_path, 3), str(tmp_path / "gate")
    refs = [hold.options(num_cpus=0, resources={"special": 1}).remote(path, gate) for path in begun]
    wait_until(lambda: sum(map(os.path.exists, begun)) == 2)
    assert ray.wait([refs[2]], timeout=0.2)[0] == []
    assert sum(map(os.path.exists, begun)) == 2
    open_gate(gate)
    assert ray.get(refs, timeout=30) == [True] * 3


def test_an_actor_that_waits_lends_its_cpus() -> None:
    @ray.remote
    def work() -> int:
        return 7

    @ray.remote(num_cpus=4)
    class Whole:
        def asks(self) -> int:
            return int(ray.get(work.remote()))

    assert ray.get(Whole.remote().asks.remote(), timeout=60) == 7


def test_more_than_one_cpu(tmp_path: Path) -> None:
    begun, gate = gates(tmp_path, 2), str(tmp_path / "gate")
    refs = [hold.options(num_cpus=3).remote(path, gate) for path in begun]
    wait_until(lambda: sum(map(os.path.exists, begun)) == 1)
    assert ray.wait(refs, timeout=0.2)[0] == []
    assert sum(map(os.path.exists, begun)) == 1
    open_gate(gate)
    assert ray.get(refs, timeout=30) == [True, True]


def test_fractions_of_a_cpu(tmp_path: Path) -> None:
    begun, gate = gates(tmp_path, 6), str(tmp_path / "gate")
    refs = [hold.options(num_cpus=0.5).remote(path, gate) for path in begun]
    wait_until(lambda: all(map(os.path.exists, begun)))
    open_gate(gate)
    assert ray.get(refs, timeout=30) == [True] * 6


def test_memory_bounds_what_runs(tmp_path: Path) -> None:
    """What a task asks for is set aside for it, whatever it takes in the end."""
    begun, gate = gates(tmp_path, 3), str(tmp_path / "gate")
    share = ray.cluster_resources()["memory"] * 0.4
    refs = [hold.options(memory=share).remote(path, gate) for path in begun]
    wait_until(lambda: sum(map(os.path.exists, begun)) == 2)
    assert ray.wait([refs[2]], timeout=0.2)[0] == []
    assert sum(map(os.path.exists, begun)) == 2
    open_gate(gate)
    assert ray.get(refs, timeout=30) == [True] * 3


def test_what_can_never_run_says_so() -> None:
    for options in ({"num_cpus": 100}, {"num_gpus": 3}, {"resources": {"unheard_of": 1}}, {"memory": 1e18}):
        with pytest.raises(ray.exceptions.TaskUnschedulableError):
            ray.get(hold.options(**options).remote("never", "never"), timeout=20)


def test_available_resources_follow(tmp_path: Path) -> None:
    begun, gate = str(tmp_path / "begun"), str(tmp_path / "gate")
    ref = hold.options(num_cpus=2, resources={"special": 1}).remote(begun, gate)
    pass_gate(begun)
    wait_until(lambda: ray.available_resources().get("CPU", 0) == 2)
    assert ray.available_resources()["special"] == 1
    open_gate(gate)
    ray.get(ref)
    wait_until(lambda: ray.available_resources().get("CPU", 0) == 4)


# ---- accelerators -------------------------------------------------------------------------------------------


@ray.remote(num_gpus=1)
def devices(begun: str = "", gate: str = "") -> tuple[str, list[int]]:
    if begun:
        open_gate(begun)
        pass_gate(gate)
    return os.environ.get("CUDA_VISIBLE_DEVICES", ""), [int(device) for device in ray.get_gpu_ids()]


def test_gpus_are_kept_apart(tmp_path: Path) -> None:
    begun, gate = gates(tmp_path, 2), str(tmp_path / "gate")
    refs = [devices.remote(path, gate) for path in begun]
    wait_until(lambda: all(map(os.path.exists, begun)))
    open_gate(gate)
    assert sorted(ray.get(refs)) == [("0", [0]), ("1", [1])]


def test_tasks_share_a_gpu(tmp_path: Path) -> None:
    begun, gate = gates(tmp_path, 4), str(tmp_path / "gate")
    refs = [devices.options(num_gpus=0.5, num_cpus=0.5).remote(path, gate) for path in begun]
    wait_until(lambda: all(map(os.path.exists, begun)))
    open_gate(gate)
    assert sorted(seen for seen, _ in ray.get(refs)) == ["0", "0", "1", "1"]


def test_an_actor_has_its_gpus() -> None:
    @ray.remote(num_gpus=2)
    class Trainer:
        def visible(self) -> str:
            return os.environ["CUDA_VISIBLE_DEVICES"]

    assert ray.get(Trainer.remote().visible.remote(), timeout=30) == "0,1"


def test_a_task_without_gpus_sees_none() -> None:
    @ray.remote
    def count() -> int:
        return len(ray.get_gpu_ids())

    assert ray.get(count.remote()) == 0


# ---- strategies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["DEFAULT", "SPREAD"])
def test_strategies_by_name(strategy: str) -> None:
    @ray.remote(scheduling_strategy=strategy)
    def work() -> int:
        return 1

    assert ray.get([work.remote() for _ in range(4)]) == [1] * 4


def test_an_unknown_strategy() -> None:
    with pytest.raises(ValueError, match="SPREAD"):
        ray.remote(scheduling_strategy="SCATTER")(abs)


def test_node_affinity() -> None:
    node = ray.get_runtime_context().get_node_id()

    @ray.remote
    def where() -> str:
        return str(ray.get_runtime_context().get_node_id())

    here = where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False))
    assert ray.get(here.remote(), timeout=20) == node
    elsewhere = where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id="nowhere", soft=True))
    assert ray.get(elsewhere.remote(), timeout=20) == node
    never = where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id="nowhere", soft=False))
    with pytest.raises(ray.exceptions.TaskUnschedulableError):
        ray.get(never.remote(), timeout=20)


# ---- placement groups ---------------------------------------------------------------------------------------


@ray.remote(num_cpus=1)
class Member:
    def ready(self) -> bool:
        return True


def test_a_placement_group_reserves() -> None:
    wait_until(lambda: (ray.available_resources().get("CPU"), ray.available_resources().get("GPU")) == (4, 2))
    group = placement_group([{"CPU": 1, "GPU": 1}])
    ray.get(group.ready(), timeout=20)
    assert ray.wait([group.ready()], timeout=20)[1] == []
    assert placement_group_table(group)["state"] == "CREATED"
    assert ray.available_resources()["CPU"] == 3
    assert ray.available_resources()["GPU"] == 1
    remove_placement_group(group)
    wait_until(lambda: placement_group_table(group)["state"] == "REMOVED")
    wait_until(lambda: ray.available_resources()["CPU"] == 4)


def test_actors_and_tasks_run_in_a_group(tmp_path: Path) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1, "GPU": 1}], strategy="STRICT_PACK")
    assert group.wait(20)
    assert group.bundle_count == 2
    assert group.bundle_specs[0] == {"CPU": 1}
    member = Member.options(
        scheduling_strategy=PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=0)
    ).remote()
    assert ray.get(member.ready.remote(), timeout=20)
    inside = devices.options(
        scheduling_strategy=PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=1)
    )
    assert len(ray.get(inside.remote(), timeout=20)[1]) == 1
    del member
    remove_placement_group(group)


def test_tasks_stay_in_the_group_of_the_one_that_starts_them() -> None:
    group = placement_group([{"CPU": 2}])

    @ray.remote
    def where() -> object:
        return ray.get_runtime_context().get_placement_group_id()

    @ray.remote
    class Actor:
        def where(self) -> object:
            return ray.get_runtime_context().get_placement_group_id()

    @ray.remote
    def start() -> list[object]:
        free = where.options(scheduling_strategy="SPREAD")
        found: list[object] = ray.get([where.remote(), Actor.remote().where.remote(), free.remote()])
        return found

    inside = start.options(
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    )
    assert ray.get(inside.remote(), timeout=20) == [str(group.id), str(group.id), None]
    outside = start.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
    assert ray.get(outside.remote(), timeout=20) == [None] * 3
    remove_placement_group(group)


def test_a_group_waits_until_there_is_room() -> None:
    first = placement_group([{"GPU": 2}])
    assert first.wait(20)
    second = placement_group([{"CPU": 1}, {"GPU": 1}])
    assert not second.wait(0.2)
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(second.ready(), timeout=0.1)
    remove_placement_group(first)
    assert second.wait(20)
    remove_placement_group(second)


def test_a_group_that_can_never_be() -> None:
    group = placement_group([{"CPU": 100}])
    with pytest.raises(ray.exceptions.TaskUnschedulableError):
        ray.get(group.ready(), timeout=20)


def test_what_runs_in_a_removed_group_ends() -> None:
    group = placement_group([{"CPU": 1}])
    member = Member.options(scheduling_strategy=PlacementGroupSchedulingStrategy(placement_group=group)).remote()
    assert ray.get(member.ready.remote(), timeout=20)
    remove_placement_group(group)

    def has_ended() -> bool:
        try:
            return not ray.get(member.ready.remote(), timeout=20)
        except ray.exceptions.RayActorError:
            return True

    wait_until(has_ended)


def test_a_group_with_a_name() -> None:
    group = placement_group([{"CPU": 1}], name="named group")
    assert group.wait(20)
    assert ray.util.get_placement_group("named group").id == group.id
    remove_placement_group(group)


@pytest.mark.parametrize("bundles", [[], [{}], [{"CPU": -1}], [{"CPU": 0}], {"CPU": 1}])
def test_bundles_that_cannot_be(bundles: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        placement_group(bundles)


def test_a_strategy_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="STRICT_PACK"):
        placement_group([{"CPU": 1}], strategy="LOOSE")


# ---- environments -------------------------------------------------------------------------------------------


def test_variables_of_an_environment() -> None:
    @ray.remote(runtime_env={"env_vars": {"OMEN": "good"}})
    def read() -> str | None:
        return os.environ.get("OMEN")

    assert ray.get(read.remote(), timeout=30) == "good"
    assert ray.get(read.options(runtime_env={"env_vars": {"OMEN": "bad"}}).remote(), timeout=30) == "bad"


def test_an_actor_in_an_environment(tmp_path: Path) -> None:
    (tmp_path / "local_module_of_the_test.py").write_text("VALUE = 42\n")
    (tmp_path / "data.txt").write_text("here")

    @ray.remote(runtime_env={"working_dir": str(tmp_path)})
    class Reader:
        def read(self) -> tuple[str, int]:
            import importlib

            return Path("data.txt").read_text(), importlib.import_module("local_module_of_the_test").VALUE

    assert ray.get(Reader.remote().read.remote(), timeout=30) == ("here", 42)


def test_modules_of_an_environment(tmp_path: Path) -> None:
    package = tmp_path / "package_of_the_test"
    package.mkdir()
    (package / "__init__.py").write_text("ANSWER = 7\n")

    @ray.remote(runtime_env={"py_modules": [str(package)]})
    def answer() -> int:
        import importlib

        return int(importlib.import_module("package_of_the_test").ANSWER)

    assert ray.get(answer.remote(), timeout=30) == 7


def wheel(directory: Path, name: str, source: str) -> Path:
    """A wheel with one module, made by hand: installing it needs no index and no build."""
    path = directory / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in (files | {f"{info}/RECORD": record}).items():
            archive.writestr(file, text)
    return path


@pytest.mark.slow
def test_packages_of_an_environment(tmp_path: Path) -> None:
    package = wheel(tmp_path, "package_to_install", "ANSWER = 42\n")

    @ray.remote(runtime_env={"pip": [str(package)]})
    def answer() -> int:
        import importlib

        return int(importlib.import_module("package_to_install").ANSWER)

    assert ray.get(answer.remote(), timeout=60) == 42
    with pytest.raises(ModuleNotFoundError):
        ray.get(answer.options(runtime_env={"env_vars": {"OMEN": "none"}}).remote(), timeout=60)


def test_an_environment_that_cannot_be_made() -> None:
    with pytest.raises((ValueError, ray.exceptions.RuntimeEnvSetupError)):
        ray.get(hold.options(runtime_env={"working_dir": "no/such/directory"}).remote("a", "b"), timeout=30)


def test_an_unknown_key_of_an_environment() -> None:
    with pytest.raises(ValueError, match="env_vars"):
        ray.remote(runtime_env={"env_var": {}})(abs)


def test_an_environment_for_everything(place: Place) -> None:
    done = place.run(
        """
        import os
        import fibernb as ray

        ray.init(num_cpus=1, runtime_env={"env_vars": {"OMEN": "for all", "OTHER": "1"}})

        @ray.remote
        def read():
            return os.environ["OMEN"], os.environ["OTHER"]

        print(ray.get(read.remote()))
        print(ray.get(read.options(runtime_env={"env_vars": {"OMEN": "own"}}).remote()))
        """
    )
    assert (done.stdout, done.stderr) == ("('for all', '1')\n('own', '1')\n", "")


def test_accelerator_type(place: Place) -> None:
    done = place.run(
        """
        import fibernb as ray

        ray.init(num_cpus=1, resources={"accelerator_type:A100": 1})

        def one():
            return 1

        print(ray.get(ray.remote(accelerator_type="A100")(one).remote(), timeout=20))
        try:
            ray.get(ray.remote(accelerator_type="H100")(one).remote(), timeout=20)
        except ray.exceptions.TaskUnschedulableError:
            print("no such accelerator")
        """
    )
    assert (done.stdout, done.stderr) == ("1\nno such accelerator\n", "")
