# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Engines, hubs and clients that are killed under the loads of tasks and actors.

Each load is run three ways: its engines are killed at random while it runs, the hub is, or the client that runs it.
Every result must be right, nothing may run without bounds, and nothing may be left. Where a kill strikes is chosen by
`SEED`, so a failure can be run again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

import fibernb as fnb
from fibernb.client.cluster import Cluster
from fibernb.errors import ActorDied
from fibernb.store.names import SEMAPHORE, SHARED_MEMORY, prefix_of
from fibernb.util import state
from tests.integration.conftest import Place, wait_until
from tests.integration.loads import EXTRA_CALLS, LOADS, Load, marks

SEED: Final = int(os.environ.get("FAULTS_SEED", "1"))
KILLS: Final = EXTRA_CALLS


# ---- who is killed ------------------------------------------------------------------------------------------


def busy_engines(cluster: Cluster) -> list[int]:
    """Processes that run something, actors' and auxiliary ones included; engines of seats that wait otherwise."""
    rows = [row for row in state.list_workers() if row["pid"]]
    busy = [int(row["pid"]) for row in rows if str(row["state"]).lower() == "busy"]
    return sorted(busy or [int(row["pid"]) for row in rows])


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Killer:
    """Kills when marks have come to where the seed says, whatever time that takes."""

    def __init__(self, trace: Path, load: Load, kills: int, strike: Callable[[random.Random], None]) -> None:
        self._random = random.Random(f"{SEED} {load.run.__name__}")
        self._points = sorted(self._random.sample(range(load.marks // 20, load.marks * 9 // 10), kills))
        self._trace = trace
        self._strike = strike
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.done = 0
        self.error: BaseException | None = None

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            for point in self._points:
                while marks(self._trace) < point:
                    if self._over.wait(0.002):
                        return
                self._strike(self._random)
                self.done += 1
        except BaseException as error:
            self.error = error


@contextmanager
def killing_engines(cluster: Cluster, trace: Path, load: Load) -> Iterator[Killer]:
    with Killer(trace, load, KILLS, lambda chance: kill(chance.choice(busy_engines(cluster)))) as killer:
        yield killer


@contextmanager
def killing_hubs(cluster: Cluster, trace: Path, load: Load) -> Iterator[Killer]:
    with Killer(trace, load, 2, lambda _: kill(cluster.status().pid)) as killer:
        yield killer


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADS)
def test_engines_are_killed_at_random(own_cluster: Cluster, tmp_path: Path, name: str) -> None:
    load, trace = LOADS[name], tmp_path / "trace"
    with killing_engines(own_cluster, trace, load) as killer:
        load.run(str(trace))
    assert killer.done > 0, "the load was over before anything could be killed"
    assert load.marks <= marks(trace) <= load.marks + killer.done * load.more, "re-execution has its bounds"
    wait_until(lambda: own_cluster.status().ready == 2)
    assert fnb.get(fnb.remote(abs).remote(-1), timeout=30) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADS)
def test_the_hub_is_killed_under(own_cluster: Cluster, tmp_path: Path, name: str) -> None:
    load, trace = LOADS[name], tmp_path / "trace"
    with killing_hubs(own_cluster, trace, load) as killer:
        load.run(str(trace))
    assert killer.done > 0, "the load was over before anything could be killed"
    assert marks(trace) == load.marks, "nothing runs twice"


# ---- the client ---------------------------------------------------------------------------------------------

CLIENT: Final = """
    import os, sys
    os.environ["FIBERNB_LEASE_S"] = "3"
    sys.path.insert(0, sys.argv[3])
    import fibernb as fnb
    from fibernb.multiprocessing import Lock
    from tests.integration.loads import LOADS

    fnb.init(workers=2)
    lock = Lock()  # has a name in shared memory
    while True:
        LOADS[sys.argv[1]].run(sys.argv[2])
"""
ROOT: Final = Path(__file__).resolve().parents[2]


def names_in_shared_memory(prefixes: tuple[str, ...]) -> list[str]:
    """What clusters have there whose names begin so; those of others on this machine come and go."""
    return [name for name in os.listdir(SHARED_MEMORY) if name.removeprefix(SEMAPHORE).startswith(prefixes)]


def holders_of_memory(place: Place) -> set[int]:
    """Processes of this place that have a store of FiberNB mapped, whatever they are called."""
    found = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            ours = str(place.directory).encode() in Path(f"/proc/{entry}/environ").read_bytes()
            if ours and int(entry) != os.getpid() and "fibernb-store" in Path(f"/proc/{entry}/maps").read_text():
                found.add(int(entry))
        except OSError:
            continue
    return found


def until_marks(client: subprocess.Popen[str], trace: Path, count: int) -> None:
    def far_enough() -> bool:
        assert client.poll() is None, client.communicate()
        return marks(trace) >= count

    wait_until(far_enough, timeout_s=60)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADS)
def test_nothing_is_left_of_a_client_that_is_killed_under(place: Place, tmp_path: Path, name: str) -> None:
    trace = tmp_path / "trace"
    client = place.start(CLIENT, name, str(trace), str(ROOT))
    chance = random.Random(f"{SEED} client {name}")
    try:
        until_marks(client, trace, chance.randrange(10, LOADS[name].marks * 9 // 10))
        assert name != "tree" or holders_of_memory(place), "the store is in use"
        prefixes = tuple(map(prefix_of, place.clusters()))
        assert names_in_shared_memory(prefixes), "the lock has a name"
    finally:
        client.kill()
        client.communicate(timeout=30)
    place.wait_empty()
    assert not names_in_shared_memory(prefixes)
    assert not holders_of_memory(place)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADS)
def test_a_client_that_is_killed_leaves_a_shared_cluster_as_it_was(
    own_cluster: Cluster, place: Place, tmp_path: Path, name: str
) -> None:
    """Its tasks, actors and objects end; the engines and the cluster of the others stay."""
    trace = tmp_path / "trace"
    code = CLIENT.replace("fnb.init(workers=2)", "fnb.connect(sys.argv[4])")
    client = place.start(code, name, str(trace), str(ROOT), own_cluster.name)
    try:
        until_marks(client, trace, LOADS[name].marks // 4)
    finally:
        client.kill()
        client.communicate(timeout=30)

    def is_clean() -> bool:
        living = [row for row in state.list_actors() if row["state"] != "DEAD"]
        return not living and not state.list_objects() and own_cluster.status().busy == 0

    wait_until(is_clean, timeout_s=40, describe=lambda: f"{state.list_actors()}\n{state.list_objects()}")
    assert fnb.get(fnb.remote(abs).remote(-1), timeout=30) == 1


# ---- actors that have ended -----------------------------------------------------------------------------------


@fnb.remote
class Mortal:
    def __init__(self, trace: str) -> None:
        with open(trace, "a") as file:
            file.write("made\n")

    def keep(self, handle: object) -> None:
        self.kept = handle

    def die(self) -> None:
        os._exit(3)

    def leave(self) -> None:
        fnb.actor.exit_actor()


def test_actors_that_have_ended_stay_dead_when_the_hub_is_killed(own_cluster: Cluster, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ends = {"exited with code 3": "die", "it called exit_actor": "leave", "it was killed": ""}
    actors = {why: Mortal.options(name=f"mortal {how}").remote(str(trace)) for why, how in ends.items()}
    for why, actor in actors.items():
        if ends[why]:
            with pytest.raises(ActorDied):
                fnb.get(getattr(actor, ends[why]).remote(), timeout=30)
        else:
            fnb.get(actor.keep.remote(None), timeout=30)
            fnb.kill(actor)
    wait_until(lambda: all(row["state"] == "DEAD" for row in state.list_actors()))
    pid = own_cluster.status().pid
    kill(pid)
    wait_until(lambda: own_cluster.status().pid != pid)
    for why, actor in actors.items():
        with pytest.raises(ActorDied, match=why):
            fnb.get(actor.keep.remote(None), timeout=30)
    assert trace.read_text().splitlines() == ["made"] * 3


def test_actors_that_only_hold_each_other_end(own_cluster: Cluster, tmp_path: Path) -> None:
    left, right, alone = (Mortal.remote(str(tmp_path / "trace")) for _ in range(3))
    fnb.get([left.keep.remote(right), right.keep.remote(left), alone.keep.remote(alone)], timeout=30)
    del left, right, alone
    wait_until(lambda: not state.list_objects() and own_cluster.status().actors == 0, timeout_s=40)
