"""Processes that die while work is under way, clients that come and go. Every result must be right and nothing left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import fibernb as fnb
from fibernb import config as configuration
from fibernb.client.cluster import Cluster
from fibernb.errors import ClusterError, NotConnected
from fibernb.hub import place as place_of_clusters
from fibernb.hub.connection import list_connections
from tests.integration.conftest import Place, wait_until

TASKS = 2000


def traced_map(directory: Path) -> list[fnb.ObjectRef]:
    """A map whose every run of every task leaves a line."""

    def work(x: int, path: str) -> int:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{x}\n".encode())
        os.close(descriptor)
        time.sleep(0.001)
        return 3 * x

    trace = str(directory / "trace")
    refs: list[fnb.ObjectRef] = fnb.remote(work).starmap((x, trace) for x in range(TASKS))
    return refs


def runs(directory: Path) -> Counter[int]:
    """How often each task has run."""
    return Counter(map(int, (directory / "trace").read_text().split()))


def under_way(directory: Path) -> bool:
    path = directory / "trace"
    return path.exists() and path.stat().st_size > 1000


def check(refs: list[fnb.ObjectRef]) -> None:
    assert fnb.get(refs, timeout=90) == [3 * x for x in range(TASKS)]


def test_an_engine_is_killed(own_cluster: Cluster, tmp_path: Path) -> None:
    refs = traced_map(tmp_path)
    own_cluster.session.flush()
    wait_until(lambda: under_way(tmp_path))
    victim = own_cluster.status().engines[0].pid
    os.kill(victim, signal.SIGKILL)
    check(refs)
    again = [x for x, count in runs(tmp_path).items() if count > 1]
    assert len(runs(tmp_path)) == TASKS
    assert len(again) <= 300, "only what had not been answered runs again"
    wait_until(lambda: own_cluster.status().ready == 2)


def test_the_hub_is_killed(own_cluster: Cluster, tmp_path: Path) -> None:
    own_cluster.ranks[:].push({"kept": 5})
    refs = traced_map(tmp_path)
    own_cluster.session.flush()
    wait_until(lambda: under_way(tmp_path))
    hub = own_cluster.status().pid
    os.kill(hub, signal.SIGKILL)
    check(refs)
    assert own_cluster.status().pid != hub
    assert runs(tmp_path) == Counter(range(TASKS)), "nothing runs twice"
    assert own_cluster.ranks[:]["kept"] == [5, 5]


def test_the_hub_is_killed_again_and_again(own_cluster: Cluster, tmp_path: Path) -> None:
    refs = traced_map(tmp_path)
    own_cluster.session.flush()
    for _ in range(3):
        os.kill(own_cluster.status().pid, signal.SIGKILL)
        time.sleep(0.1)
    check(refs)
    assert runs(tmp_path) == Counter(range(TASKS))


def test_the_node_is_killed(own_cluster: Cluster, tmp_path: Path) -> None:
    refs = traced_map(tmp_path)
    own_cluster.session.flush()
    wait_until(lambda: under_way(tmp_path))
    os.kill(own_cluster.connection.node_pid, signal.SIGKILL)
    check(refs)
    assert set(runs(tmp_path)) == set(range(TASKS))


def test_hub_and_node_are_killed(own_cluster: Cluster, tmp_path: Path) -> None:
    refs = traced_map(tmp_path)
    own_cluster.session.flush()
    wait_until(lambda: under_way(tmp_path))
    os.kill(own_cluster.status().pid, signal.SIGKILL)
    os.kill(own_cluster.connection.node_pid, signal.SIGKILL)
    check(refs)


def test_a_cluster_that_is_stopped_fails_what_waits(own_cluster: Cluster) -> None:
    ref = fnb.remote(time.sleep).remote(60)
    errors: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: errors.append(ref.exception()))
    thread.start()
    other = fnb.remote(lambda: 1).remote()
    fnb.get(other)
    own_cluster.stop()
    thread.join(30)
    assert isinstance(errors[0], NotConnected)
    with pytest.raises(NotConnected):
        fnb.get(ref)
    assert not fnb.is_initialized()


CLIENT = """
    import sys, time
    import fibernb as fnb
    fnb.init(workers=2, lease_s=1)
    work = fnb.remote(lambda x: time.sleep(0.01) or x)
    refs = work.map(range(2000))
    fnb.get(refs[:10])
    print("under way", flush=True)
    fnb.get(refs)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_a_client_that_is_killed(place: Place, number: signal.Signals) -> None:
    client = place.start(CLIENT)
    assert client.stdout is not None
    assert client.stdout.readline() == "under way\n"
    assert place.processes()
    client.send_signal(number)
    client.communicate(timeout=30)
    place.wait_empty()


ENDS = {
    "by itself": "",
    "with work under way": "refs = [fnb.remote(lambda: time.sleep(60)).remote() for _ in range(4)]",
    "with unsent work": "fnb.remote(lambda: 1).remote()",
    "by exit": "raise SystemExit(0)",
    "with a callback": "fnb.remote(lambda: time.sleep(60)).remote().add_done_callback(print)",
    "while a thread waits": "threading.Thread(target=fnb.get, args=[fnb.remote(lambda: 1).remote()]).start()",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_script_ends_quickly_and_quietly(place: Place, end: str) -> None:
    code = (
        "import threading, time, fibernb as fnb\n"
        "fnb.init(workers=1, lease_s=30)\n"
        "assert fnb.get(fnb.remote(lambda: 5).remote()) == 5\n"
        f"{ENDS[end]}\n"
    )
    begun = time.monotonic()
    done = place.run(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - begun < 20
    place.wait_empty()


def test_a_script_that_fails_shows_its_own_error(place: Place) -> None:
    done = place.run("import fibernb as fnb\nfnb.init(workers=1, lease_s=30)\n1 / 0")
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert done.stderr.count("Traceback") == 1
    place.wait_empty()


def test_the_first_use_starts_a_cluster(place: Place) -> None:
    done = place.run("import fibernb as fnb\nprint(fnb.get(fnb.remote(abs).remote(-3)), fnb.is_initialized())")
    assert (done.stdout, done.stderr) == ("3 True\n", "")
    place.wait_empty()


def test_two_clusters_side_by_side(own_cluster: Cluster, place: Place) -> None:
    own_cluster.ranks[:]["x"] = "mine"
    code = """
        import fibernb as fnb
        cluster = fnb.init(workers=1, lease_s=30, name="other")
        cluster.ranks[:]["x"] = "other"
        print(cluster.name, cluster.size, cluster.ranks[:]["x"])
    """
    done = place.run(code)
    assert (done.stdout, done.stderr) == ("other 1 ['other']\n", "")
    assert own_cluster.ranks[:]["x"] == ["mine", "mine"]


def test_another_process_attaches(own_cluster: Cluster, place: Place) -> None:
    own_cluster.ranks[:]["x"] = 5
    code = """
        import sys, fibernb as fnb
        cluster = fnb.connect(sys.argv[1])
        print(cluster.ranks[:]["x"], fnb.get(fnb.remote(abs).remote(-1)), fnb.connect() is cluster)
        try:
            fnb.init(name="third")
        except ValueError as error:
            print("shutdown" in str(error))
    """
    done = place.run(code, own_cluster.name)
    assert (done.stdout, done.stderr) == ("[5, 5] 1 True\nTrue\n", "")
    assert own_cluster.ranks[:]["x"] == [5, 5]


def test_a_detached_cluster_stays_until_it_is_stopped(place: Place) -> None:
    code = """
        import fibernb as fnb
        cluster = fnb.init(workers=1, lease_s=1, name="kept")
        cluster.ranks[:]["x"] = 5
        cluster.detach()
    """
    assert place.run(code).returncode == 0
    time.sleep(2)
    cluster = fnb.connect("kept")
    assert cluster.ranks[:]["x"] == [5]
    cluster.stop()
    place.wait_empty()


@pytest.mark.parametrize("node_too", [False, True])
def test_attaching_when_the_hub_has_been_killed(place: Place, node_too: bool) -> None:
    code = """
        import os, signal, sys, fibernb as fnb
        cluster = fnb.init(workers=1, lease_s=5, name="orphan")
        cluster.ranks[:]["x"] = 5
        connection = cluster.connection
        for pid in [connection.node_pid] * int(sys.argv[1]) + [connection.pid, os.getpid()]:
            os.kill(pid, signal.SIGKILL)
    """
    place.run(code, str(int(node_too)))
    wait_until(lambda: not place_of_clusters.is_locked(place.directory / "orphan"))
    if node_too:
        with pytest.raises(NotConnected, match="start a new one"):
            fnb.connect("orphan")
        assert not fnb.is_initialized()
        assert not list_connections(configuration.load())
    else:
        assert fnb.connect("orphan").ranks[:]["x"] == [5]
        fnb.current_cluster().stop()
        fnb.shutdown()
    place.wait_empty()


def test_a_cluster_that_cannot_have_its_seats_is_not_left_behind(place: Place) -> None:
    with pytest.raises(ClusterError, match="more than"):
        fnb.init(workers=10**6, lease_s=60)
    assert not fnb.is_initialized()
    place.wait_empty()


def test_there_is_no_such_cluster(place: Place) -> None:
    with pytest.raises(NotConnected, match="no cluster"):
        fnb.connect("nowhere")
    with pytest.raises(NotConnected, match="no cluster"):
        fnb.connect()
    with pytest.raises(fnb.errors.BackendError, match="local"):
        fnb.init(backend="cloud")
    with pytest.raises(fnb.errors.ConfigError, match="workers"):
        fnb.init(worker=2)
    with pytest.raises(fnb.errors.ConfigError):
        fnb.init(workers=-1)
    assert not fnb.is_initialized()


# ---- forks ----------------------------------------------------------------------------------------------


def in_child(work: Callable[[], str]) -> str:
    """What ``work`` gives in a forked child."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, work().encode())
        except BaseException as error:
            os.write(writing, repr(error).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


def test_a_forked_child_gets_a_connection_of_its_own(own_cluster: Cluster) -> None:
    pending = fnb.remote(time.sleep).remote(0.5)

    def use() -> str:
        value = fnb.get(fnb.remote(lambda: 7).remote(), timeout=30)
        try:
            fnb.get(pending)
        except NotConnected as error:
            return f"{value}, {error}"
        return "no error"

    assert in_child(use).startswith("7, this reference or cluster was made before this process was forked")
    assert fnb.get(pending, timeout=30) is None


def child_of_multiprocessing(x: int) -> int:
    value: int = fnb.get(fnb.remote(abs).remote(x), timeout=30)
    return value


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_children_of_multiprocessing(own_cluster: Cluster) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(child_of_multiprocessing, range(-8, 0)) == [8, 7, 6, 5, 4, 3, 2, 1]
    assert fnb.get(fnb.remote(abs).remote(-9)) == 9
