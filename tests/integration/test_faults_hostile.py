"""Tasks, values and peers that do their worst. Whatever they do is told in time, and the cluster goes on."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

import cloudpickle
import pytest

import fibernb as fnb
from fibernb import transport
from fibernb.client.cluster import Cluster
from fibernb.core.messages import DefineFunction, Submit
from fibernb.errors import GetTimeout, NotConnected, TaskCancelled, WorkerDied
from fibernb.hub.connection import read_connection
from fibernb.model import Call, Resources, TaskOptions, first_id
from fibernb.wire import codec, credentials
from fibernb.wire.handshake import ClientHello
from tests.integration.conftest import Place, wait_until

STRANGER = 77  # a client number


@pytest.fixture(autouse=True, scope="module")
def _by_value() -> Iterator[None]:
    """What is defined here reaches the engines as what is defined in a notebook does."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def check(cluster: Cluster) -> None:
    """Both seats work."""
    assert fnb.get(fnb.remote(abs).map(range(-20, 0)), timeout=20) == list(range(20, 0, -1))
    wait_until(lambda: cluster.status().ready == 2)


# ---- tasks ------------------------------------------------------------------------------------------------


def crash() -> None:
    ctypes.string_at(0)


def leave() -> None:
    os._exit(3)


def kill_the_node() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(10)


def close_descriptors() -> int:
    os.closerange(3, 64)
    return 1


DEATHS: dict[str, tuple[Callable[[], object], str]] = {
    "a crash": (crash, "SIGSEGV"),
    "an abort": (os.abort, "SIGABRT"),
    "an exit": (leave, "code 3"),
    "the end of its node": (kill_the_node, "node process"),
    "a loss of descriptors": (close_descriptors, "code 70"),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_task_that_takes_its_engine_along_says_how(cluster: Cluster, death: str) -> None:
    work, sign = DEATHS[death]
    with pytest.raises(WorkerDied, match=sign):
        fnb.get(fnb.remote(max_retries=0)(work).remote(), timeout=30)
    check(cluster)


def ignore_signals() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    return 1


def lose_streams() -> int:
    sys.stdout = sys.stderr = None
    print("nowhere")
    return 1


def start_an_endless_thread() -> int:
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return 1


def fork_a_child() -> int:
    if os.fork() == 0:
        sys.exit(0)
    return 1


@pytest.mark.parametrize("work", [ignore_signals, lose_streams, start_an_endless_thread, fork_a_child])
def test_a_task_that_harms_its_engine_is_answered_and_the_seat_can_be_renewed(
    cluster: Cluster, work: Callable[[], int]
) -> None:
    assert fnb.get(fnb.remote(work).remote(), timeout=20) == 1
    check(cluster)
    cluster.restart()
    check(cluster)


def test_ten_thousand_tasks_are_cancelled(cluster: Cluster) -> None:
    refs = fnb.remote(time.sleep).map([30] * 10_000)
    cluster.session.flush()
    for ref in refs:
        fnb.cancel(ref)
    for ref in refs:
        with pytest.raises(TaskCancelled):
            fnb.get(ref, timeout=30)
    check(cluster)


# ---- values -----------------------------------------------------------------------------------------------


class ExitsWhenUnpickled:
    def __reduce__(self) -> tuple[object, ...]:
        return sys.exit, (3,)


def make_trap() -> ExitsWhenUnpickled:
    return ExitsWhenUnpickled()


def test_a_value_that_exits_when_it_is_unpickled(cluster: Cluster) -> None:
    task = fnb.remote(make_trap)
    with pytest.raises(SystemExit):
        fnb.get(task.remote(), timeout=20)
    with pytest.raises(SystemExit):
        task.remote().future().result(timeout=20)
    with pytest.raises(SystemExit):
        fnb.get(fnb.remote(repr).remote(task.remote()), timeout=20)
    check(cluster)


@pytest.mark.parametrize("kind", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_a_callback_that_raises_does_not_end_the_session(cluster: Cluster, kind: type[BaseException]) -> None:
    called = threading.Event()

    def fail(_ref: fnb.ObjectRef) -> None:
        called.set()
        raise kind

    fnb.remote(abs).remote(1).add_done_callback(fail)
    assert called.wait(20), "by the session's own thread, since this one does not look"
    later = threading.Event()
    fnb.remote(abs).remote(1).add_done_callback(lambda _ref: later.set())
    assert later.wait(20)


# ---- peers ------------------------------------------------------------------------------------------------


def hello(cluster: Cluster, lease_s: float = 1.0) -> bytes:
    return codec.encode(
        ClientHello(credentials=credentials(cluster.connection.key), client=STRANGER, instance="?", lease_s=lease_s)
    )


def is_turned_away(link: transport.Link) -> bool:
    try:
        while link.receive(10.0):
            pass
    except NotConnected:
        return True
    return False


@pytest.mark.parametrize(
    "options",
    [
        TaskOptions(num_returns=10**9),
        TaskOptions(num_returns=-2),
        TaskOptions(resources=Resources(milli_cpus=-1000)),
        TaskOptions(resources=Resources(custom={"disk": -1})),
    ],
)
def test_options_that_no_client_would_send_are_refused(cluster: Cluster, options: TaskOptions) -> None:
    link = transport.dial(cluster.connection.address)
    link.send(hello(cluster))
    link.send(codec.encode(DefineFunction(digest=b"?" * 16, code=b"")))
    link.send(codec.encode(Submit(function=b"?" * 16, calls=[Call(first_id(STRANGER), b"")], options=options)))
    assert is_turned_away(link)
    link.close()
    check(cluster)


@pytest.mark.parametrize("lease_s", [-1.0, float("nan"), float("inf"), 1e300])
def test_leases_without_end_are_refused(cluster: Cluster, lease_s: float) -> None:
    link = transport.dial(cluster.connection.address)
    link.send(hello(cluster, lease_s))
    assert is_turned_away(link)
    link.close()
    check(cluster)


def test_silent_and_babbling_strangers_do_not_keep_the_hub_from_its_work(cluster: Cluster) -> None:
    path = cluster.connection.address.partition(":")[2]
    strangers = []
    for number in range(300):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.connect(path)
        stranger.send(b"\0" if number % 2 else os.urandom(100))
        strangers.append(stranger)
    check(cluster)
    for stranger in strangers:
        stranger.close()
    check(cluster)


# ---- what the cluster stands on -----------------------------------------------------------------------------


def test_a_cluster_whose_directory_was_removed_says_so_when_it_is_scaled(place: Place) -> None:
    code = """
        import shutil, fibernb as fnb
        cluster = fnb.init(workers=1, lease_s=2)
        cluster.scale(1)
        shutil.rmtree(cluster.connection.directory)
        print(fnb.get(fnb.remote(abs).remote(-1), timeout=20))
        try:
            cluster.scale(2, timeout_s=3)
        except fnb.errors.ScaleTimeout as error:
            print("has been removed" in str(error))
    """
    done = place.run(code)
    assert (done.stdout, done.stderr) == ("1\nTrue\n", "")


def slowly(x: int) -> int:
    time.sleep(0.001)
    return x


@pytest.mark.parametrize("part", ["hub", "node", "engine"])
def test_what_was_stopped_for_a_while_goes_on(cluster: Cluster, part: str) -> None:
    refs = fnb.remote(slowly).map(range(500))
    fnb.get(refs[0], timeout=20)
    status = cluster.status()
    pid = {
        "hub": status.pid,
        "node": read_connection(cluster.connection.directory).node_pid,
        "engine": status.engines[0].pid,
    }[part]
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(GetTimeout):
            fnb.get(fnb.remote(time.sleep).remote(60), timeout=0.5)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert fnb.get(refs, timeout=30) == list(range(500))
    cluster.interrupt()
    check(cluster)
