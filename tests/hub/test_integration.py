"""A hub, a node and engines as real processes: killed, flooded, started again, and gone without a trace."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fibernb import config as configuration
from fibernb import transport
from fibernb.config import Config
from fibernb.core.messages import Detach, Goodbye, HubStops, Scale, Stop
from fibernb.errors import ClusterError, NotConnected
from fibernb.hub import launch as launching
from fibernb.hub import place
from fibernb.hub.connection import FILE_NAME, list_connections, read_connection
from fibernb.hub.launch import launch
from fibernb.wire import codec, credentials
from fibernb.wire.handshake import ClientHello, EngineHello, NodeHello, Refused
from tests.hub.live import Live, is_running, live, processes, short_directory, wait_until


@pytest.fixture(scope="module")
def shared() -> Iterator[Live]:
    """A cluster that tests leave as they find it."""
    with live() as cluster:
        yield cluster


# ---- what it looks like --------------------------------------------------------------------------------


def test_its_files_are_for_this_user_alone(shared: Live) -> None:
    assert shared.directory.stat().st_mode & 0o777 == 0o700
    assert shared.directory.parent.stat().st_mode & 0o777 == 0o700
    for name in (FILE_NAME, configuration.SAVED_NAME, place.LOCK_NAME, place.LOG_NAME, place.SOCKET_NAME):
        assert (shared.directory / name).stat().st_mode & 0o077 == 0, name


def test_it_has_a_session_of_its_own_and_the_clients_directory(shared: Live) -> None:
    assert os.getsid(shared.connection.pid) == shared.connection.pid != os.getsid(0)
    assert Path(f"/proc/{shared.connection.pid}/cwd").resolve() == Path.cwd()
    assert Path(f"/proc/{shared.connection.pid}/fd/0").resolve() == Path(os.devnull)


def test_it_can_be_listed(shared: Live) -> None:
    assert list_connections(shared.config) == [read_connection(shared.connection.name, shared.config)]


def test_the_welcome_tells_the_limit(shared: Live) -> None:
    client = shared.client(client=3)
    assert client.welcome.cluster == shared.connection.name
    assert client.welcome.max_seats > 0
    assert client.welcome.limit
    client.tell(Goodbye())


def test_signals_of_a_terminal_do_not_reach_it(shared: Live) -> None:
    os.kill(shared.connection.pid, signal.SIGINT)
    os.kill(shared.connection.pid, signal.SIGHUP)
    client = shared.client(client=3)
    assert client.status().pid == shared.connection.pid
    client.tell(Goodbye())


def test_its_name_is_taken_while_it_lives(shared: Live) -> None:
    named = Config(runtime_dir=shared.config.runtime_dir, name=shared.connection.name)
    with pytest.raises(ClusterError, match="runs already: attach to it, stop it"):
        launch(named)
    with pytest.raises(ClusterError, match=r"there is a cluster in .* already"):
        launch(shared.config, directory=shared.directory)
    assert launch(shared.config, directory=shared.directory, resume=True).pid == shared.connection.pid


# ---- bad peers -----------------------------------------------------------------------------------------


def stranger(cluster: Live) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(cluster.connection.address.removeprefix("unix:"))
    link.settimeout(5.0)
    return link


def swallow(link: socket.socket) -> None:
    """Read until the hub hangs up."""
    try:
        while link.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    link.close()


def refusal(link: transport.Link) -> str:
    """The kind of refusal that the hub answers with."""
    [answer] = link.receive(5.0)
    refused = codec.to_client.decode(answer)
    assert isinstance(refused, Refused)
    return refused.kind


def test_a_flood_of_nonsense_is_counted_and_hurts_nobody(shared: Live) -> None:
    client = shared.client(client=3)
    before = client.status().refused
    frames = [
        b"GET / HTTP/1.1\r\n\r\n" * 10,
        os.urandom(4096),
        struct.pack("<Q", 2**63) + b"x" * 1000,
        struct.pack(">Q", 2**63) + b"x" * 1000,
        b"\xff" * 100_000,
    ]
    for number in range(200):
        link = stranger(shared)
        try:
            link.sendall(frames[number % len(frames)])
            link.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        swallow(link)
    assert client.status().refused >= before + 200
    client.tell(Goodbye())


def test_hellos_that_are_none_are_counted(shared: Live) -> None:
    client = shared.client(client=3)
    before = client.status().refused
    for payload in (b"", b"\xc1", codec.encode(Scale(seats=1000)), b"\x93" * 1000):
        link = shared.dial()
        link.send(payload)
        assert refusal(link) == "protocol"
    status = client.status()
    assert (status.refused, status.seats) == (before + 4, 0)
    client.tell(Goodbye())


@pytest.mark.parametrize(
    "hello",
    [
        ClientHello(credentials=credentials("guessed"), client=9, instance="x", lease_s=1.0),
        EngineHello(credentials=credentials("guessed"), engine=1, rank=0, pid=1),
        NodeHello(credentials=credentials("guessed"), node="x", pid=1),
    ],
)
def test_without_the_key_nothing_is_heard(shared: Live, hello: ClientHello | EngineHello | NodeHello) -> None:
    link = shared.dial()
    link.send(codec.encode(hello))
    with suppress(NotConnected):  # it may have hung up already
        link.send(codec.encode(Stop()))
    assert refusal(link) == "auth"
    assert is_running(shared.connection.pid)


def test_two_clusters_do_not_let_each_others_clients_in(shared: Live) -> None:
    with live() as other:
        assert other.directory.parent != shared.directory.parent
        link = other.dial()
        link.send(
            codec.encode(
                ClientHello(credentials=credentials(shared.connection.key), client=9, instance="x", lease_s=1.0)
            )
        )
        assert refusal(link) == "auth"


# ---- work, and deaths in the midst of it ---------------------------------------------------------------


def note_and_square(pair: tuple[int, str]) -> int:
    """Leaves a line in a file, so that the test can count how often each call has run."""
    import os
    import time

    number, path = pair
    with open(path, "a") as file:
        file.write(f"{number} {os.getpid()}\n")
    time.sleep(0.002)
    return number * number


def finished(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def submit_squares(client: Any, path: Path, keys: range) -> None:
    digest = client.define(note_and_square)
    client.submit(digest, {key: (key, str(path)) for key in keys})


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[Live, Any, Path]]:
    """A cluster of two engines in the midst of 600 calls."""
    with live() as cluster:
        client = cluster.client()
        client.scale(2)
        path = tmp_path / "runs"
        submit_squares(client, path, range(600))
        wait_until(lambda: finished(path) > 100, "some calls have run")
        yield cluster, client, path


def assert_right(client: Any) -> None:
    assert client.values(range(600)) == [key * key for key in range(600)]


def test_a_killed_engine_is_replaced_and_every_result_is_right(busy: tuple[Live, Any, Path]) -> None:
    _, client, _ = busy
    seat = client.status().engines[0]
    os.kill(seat.pid, signal.SIGKILL)
    assert_right(client)
    wait_until(lambda: client.status().ready == 2, "the seat is filled again")
    assert client.status().engines[0].pid != seat.pid


def test_a_killed_node_is_replaced_and_every_result_is_right(busy: tuple[Live, Any, Path]) -> None:
    cluster, client, _ = busy
    node = read_connection(cluster.directory).node_pid
    engines = [seat.pid for seat in client.status().engines]
    os.kill(node, signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, engines)), "the engines died with their node")
    assert_right(client)
    assert read_connection(cluster.directory).node_pid != node


def test_a_killed_hub_is_resumed_and_nothing_that_had_finished_runs_again(busy: tuple[Live, Any, Path]) -> None:
    cluster, client, path = busy
    engines = {seat.pid for seat in client.status().engines}
    before = cluster.connection
    cluster.kill_hub()
    client.wait_gone()
    cluster.resume()
    again = cluster.client(resumes=True)
    assert again.recovered.fresh
    again.results = client.results
    again.tell(Scale(seats=2))
    missing = [key for key in range(600) if again.first + key not in client.results]
    digest = again.define(note_and_square)
    again.submit(digest, {key: (key, str(path)) for key in missing})
    assert_right(again)
    runs = [line.split() for line in path.read_text().splitlines()]
    assert len(runs) == 600
    assert {int(pid) for _, pid in runs} == engines == {seat.pid for seat in again.status().engines}
    after = read_connection(cluster.directory)
    assert (after.key, after.address, after.node_pid) == (before.key, before.address, before.node_pid)
    again.tell(Stop())
    cluster.wait_gone()


def test_of_several_that_resume_a_hub_one_does() -> None:
    with live() as cluster:
        cluster.kill_hub()
        found: list[int] = []
        threads = [
            threading.Thread(
                target=lambda: found.append(launch(cluster.config, directory=cluster.directory, resume=True).pid)
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert len(set(found)) == 1
        assert cluster.client().status().pid == found[0]


def test_a_hub_resumed_after_its_node_died_too_starts_a_new_one() -> None:
    with live() as cluster:
        node = cluster.connection.node_pid
        wait_until(lambda: cluster.client().status(), "the hub answers")
        cluster.kill_hub()
        os.kill(node, signal.SIGKILL)
        wait_until(lambda: not is_running(node), "the node is dead")
        cluster.resume()
        cluster.client(client=6).scale(1)
        assert read_connection(cluster.directory).node_pid != node


def test_the_same_over_zeromq() -> None:
    with live(transport="zmq") as cluster:
        client = cluster.client()
        client.scale(2)
        client.submit(client.define(abs), {key: -key for key in range(50)})
        assert client.values(range(50)) == list(range(50))
        cluster.kill_hub()
        client.wait_gone()
        cluster.resume()
        again = cluster.client(resumes=True)
        again.submit(again.define(abs), {key: -key for key in range(50, 60)})
        assert again.values(range(50, 60)) == list(range(50, 60))
        again.tell(Stop())
        cluster.wait_gone()


# ---- the end -------------------------------------------------------------------------------------------


def test_a_stopped_cluster_leaves_nothing() -> None:
    with live() as cluster:
        client = cluster.client()
        client.scale(3)
        assert len(processes(str(cluster.directory))) == 5
        client.tell(Stop())
        assert client.wait_for(HubStops).reason
        cluster.wait_gone(3.0)


def test_sigterm_is_an_order_to_end() -> None:
    with live() as cluster:
        client = cluster.client()
        client.scale(1)
        os.kill(cluster.connection.pid, signal.SIGTERM)
        assert "SIGTERM" in client.wait_for(HubStops).reason
        cluster.wait_gone()


def test_a_cluster_without_clients_ends_with_the_lease() -> None:
    with live(lease_s=0.3) as cluster:
        cluster.wait_gone()
    with live() as cluster:
        client = cluster.client(lease_s=0.3)
        client.scale(1)
        client.close()
        cluster.wait_gone()


def test_who_starts_a_cluster_has_time_to_come_however_short_the_lease() -> None:
    with live(lease_s=0.0) as cluster:
        time.sleep(0.5)
        cluster.client(lease_s=0.0).scale(1)


def test_a_detached_cluster_stays_until_it_is_stopped() -> None:
    with live() as cluster:
        client = cluster.client(lease_s=0.1)
        client.tell(Detach())
        client.close()
        time.sleep(0.6)
        cluster.client(client=6).tell(Stop())
        cluster.wait_gone()


def test_a_killed_hub_that_nobody_resumes_takes_its_engines_along_after_the_lease() -> None:
    with live(lease_s=3.0) as cluster:
        client = cluster.client()
        client.scale(1)
        cluster.kill_hub()
        cluster.wait_gone()
        with pytest.raises(NotConnected, match="has ended: start a new one"):
            cluster.resume()


# ---- what cannot start ---------------------------------------------------------------------------------


def left_behind(base: Path) -> list[str]:
    return [path.name for path in base.glob("*/*")]


def test_a_hub_that_cannot_listen_says_so_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as base:
        directory = base / "run" / "mine"
        directory.mkdir(parents=True, mode=0o700)
        directory.parent.chmod(0o700)
        (directory / place.SOCKET_NAME).mkdir()
        with pytest.raises(ClusterError, match="could not start: cannot listen"):
            launch(Config(runtime_dir=str(base / "run")), directory=directory)
        assert processes(str(base)) == []
        assert left_behind(base) == []


def test_a_hub_that_does_not_answer_in_time_is_ended() -> None:
    with short_directory() as base:
        with pytest.raises(ClusterError, match=r"did not answer within 0.01 s \(start_timeout_s\)"):
            launch(Config(runtime_dir=str(base / "run"), start_timeout_s=0.01))
        wait_until(lambda: processes(str(base)) == [], "all have ended")
        assert left_behind(base) == []


def test_a_python_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as base:
        monkeypatch.setattr("sys.executable", "/no/such/python")
        with pytest.raises(ClusterError, match="/no/such/python"):
            launch(Config(runtime_dir=str(base / "run")))
        monkeypatch.setattr("sys.executable", "")
        with pytest.raises(ClusterError, match="does not know its own executable"):
            launch(Config(runtime_dir=str(base / "run")))
        assert left_behind(base) == []


def test_no_more_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with short_directory() as base:
        with pytest.raises(ClusterError, match="ulimit -u"):
            launch(Config(runtime_dir=str(base / "run")))
        assert left_behind(base) == []


def test_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(configuration, "save", full)
    with short_directory() as base:
        with pytest.raises(ClusterError, match="free some space"):
            launch(Config(runtime_dir=str(base / "run")))
        assert left_behind(base) == []


def test_what_has_no_directory_cannot_be_resumed() -> None:
    with pytest.raises(NotConnected):
        launch(Config(), resume=True)


# ---- what engines inherit ------------------------------------------------------------------------------


def test_tokens_of_the_notebook_stay_with_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    monkeypatch.setenv("JPY_API_TOKEN", "secret")
    monkeypatch.setenv("MY_SETTING", "wanted")
    variables = launching.environment(Config(env_passthrough=("MY_*", "JUPYTERHUB_*")))
    assert "secret" not in variables.values()
    assert variables["MY_SETTING"] == "wanted"
    assert "PATH" in variables
    assert str(Path(launching.__file__).parents[2]) in variables["PYTHONPATH"].split(os.pathsep)


def test_the_working_directory_shadows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as base:
        (base / "random.py").write_text("raise RuntimeError('shadowed')")
        (base / "fibernb").mkdir()
        monkeypatch.chdir(base)
        with live() as cluster:
            cluster.client().scale(1)
