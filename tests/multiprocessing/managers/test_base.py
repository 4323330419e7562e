"""`BaseManager`: own types and proxies, other addresses, and the life of the server."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import AuthenticationError, ProcessError
from pathlib import Path
from typing import Any

import pytest

import fibernb as fnb
import fibernb.multiprocessing as multiprocessing
from fibernb.multiprocessing.managers import BaseManager, RemoteError, SyncManager
from tests.multiprocessing.managers.things import Engine, NoFuel, Workshop

KEY = b"of the tests"


@pytest.fixture
def workshop(cluster: object) -> Iterator[Any]:
    with Workshop() as made:
        yield made


def test_a_registered_type(workshop: Any) -> None:
    engine = workshop.Engine(power=3)
    assert engine.drive(2) == 6
    assert engine.pid() == workshop._process.pid != os.getpid()
    assert not hasattr(engine, "_hidden")


def test_chosen_methods(workshop: Any) -> None:
    engine = workshop.Open()
    assert (engine._hidden(), hasattr(engine, "fail")) == ("hidden", False)
    with pytest.raises(RemoteError, match="is not in exposed"):
        engine._callmethod("fail")


def test_a_proxy_of_ones_own(workshop: Any) -> None:
    assert workshop.Shown(2).go(4) == 8


def test_a_method_that_returns_a_proxy(workshop: Any) -> None:
    assert workshop.Garage().build(5).drive(2) == 10


def test_it_returns_one_in_a_task_as_well(workshop: Any) -> None:
    drive = fnb.remote(lambda garage: garage.build(6).drive(2))
    assert fnb.get(drive.remote(workshop.Garage())) == 12


def test_an_iterator(workshop: Any) -> None:
    assert list(workshop.count_to(3)) == [0, 1, 2]


def test_an_exception_of_ones_own(workshop: Any) -> None:
    with pytest.raises(NoFuel, match="empty"):
        workshop.Engine().fail()


def test_a_type_of_the_moment(cluster: object) -> None:
    class Local:
        def get(self) -> Any:
            return self.__class__.__name__

    class Own(BaseManager):
        pass

    Own.register("Local", Local)
    with Own() as own:
        assert own.Local().get() == "Local"  # type: ignore[attr-defined]


# ---- addresses and keys ----------------------------------------------------------------------------------------


def test_the_socket_is_in_the_clusters_directory(cluster: Any) -> None:
    with SyncManager() as manager:
        address = Path(str(manager.address))
        assert address.parent == Path(cluster.connection.directory)
        assert address.is_socket()
    assert not address.exists()


def test_others_connect_by_address_and_key(cluster: object) -> None:
    with Workshop(address=("127.0.0.1", 0), authkey=KEY) as server:
        client: Any = Workshop(address=server.address, authkey=KEY)
        client.connect()
        assert client.Engine(2).drive(2) == 4
        assert fnb.get(fnb.remote(drive_there).remote(server.address)) == 8


def drive_there(address: Any) -> Any:
    client: Any = Workshop(address=address, authkey=KEY)
    client.connect()
    return client.Engine(2).drive(4)


def test_the_librarys_own_client_may_connect(cluster: object) -> None:
    from multiprocessing import managers as library

    class Client(library.BaseManager):
        pass

    Client.register("Engine")
    with Workshop(address=("127.0.0.1", 0), authkey=KEY) as server:
        client: Any = Client(address=server.address, authkey=KEY)
        client.connect()
        assert client.Engine(3).drive(3) == 9


def test_a_wrong_key_is_refused(cluster: object) -> None:
    with Workshop(address=("127.0.0.1", 0), authkey=KEY) as server:
        stranger = Workshop(address=server.address, authkey=b"another")
        with pytest.raises(AuthenticationError):
            stranger.connect()


def test_a_server_in_ones_own_process(cluster: object) -> None:
    server = Workshop(address=("127.0.0.1", 0), authkey=KEY).get_server()
    threading.Thread(target=server.accepter, daemon=True).start()
    server.stop_event = threading.Event()  # type: ignore[attr-defined]  # what serve_forever makes
    client: Any = Workshop(address=server.address, authkey=KEY)
    client.connect()
    assert client.Engine().drive(1) == 1


def test_xml_rpc(cluster: object) -> None:
    with SyncManager(serializer="xmlrpclib") as manager:
        mail = manager.Queue()
        mail.put("hello")
        assert mail.get() == "hello"


def test_an_unknown_serializer(cluster: object) -> None:
    with pytest.raises(KeyError):
        BaseManager(serializer="smoke signals")


# ---- the server's life -----------------------------------------------------------------------------------------


def test_a_manager_starts_once(cluster: object) -> None:
    manager = SyncManager()
    manager.start()
    with pytest.raises(ProcessError, match="runs already"):
        manager.start()
    with pytest.raises(ProcessError, match="runs already"):
        manager.get_server()
    manager.shutdown()
    with pytest.raises(ProcessError, match="shut down"):
        manager.start()


def test_it_ends_in_order(cluster: object) -> None:
    manager = SyncManager()
    manager.start()
    server = manager._process
    assert server in multiprocessing.active_children()
    assert server.name.startswith("SyncManager-")
    manager.shutdown()
    assert server.exitcode == 0
    manager.join()
    assert server not in multiprocessing.active_children()


def test_an_initializer(manager: SyncManager, cluster: object) -> None:
    seen: Any = manager.list()
    with_one = SyncManager()
    with_one.start(seen.append, ("begun",))
    with_one.shutdown()
    assert list(seen) == ["begun"]


def test_an_initializer_that_cannot_be_called(cluster: object) -> None:
    with pytest.raises(TypeError, match="callable"):
        SyncManager().start(1)  # type: ignore[arg-type]


def test_an_initializer_that_fails(cluster: object, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EOFError, match="exit code 1"):
        SyncManager().start(Engine().fail)
    assert "the tank is empty" in capfd.readouterr().err


def test_methods_need_a_server(cluster: object) -> None:
    with pytest.raises(AssertionError, match="not yet started"):
        SyncManager().list()


def test_a_server_that_dies_is_an_error_at_once(cluster: object) -> None:
    with Workshop() as workshop:
        engine = workshop.Engine()  # type: ignore[attr-defined]  # registered
        with pytest.raises((EOFError, ConnectionError)):
            engine.end()
        workshop.join()
        with pytest.raises(OSError):  # noqa: PT011  which one depends on the system
            engine.drive(1)


def test_a_server_that_is_killed(cluster: object) -> None:
    with Workshop() as workshop:
        engine, server = workshop.Engine(), workshop._process  # type: ignore[attr-defined]  # registered
        os.kill(server.pid, signal.SIGKILL)
        server.join()
        assert server.exitcode == -signal.SIGKILL
        with pytest.raises((OSError, EOFError)):
            engine.drive(1)


def test_it_does_not_mind_an_interrupt(workshop: Any) -> None:
    engine = workshop.Engine()
    os.kill(engine.pid(), signal.SIGINT)
    assert engine.drive(1) == 1


def test_an_interrupted_call_does_not_spoil_the_next(workshop: Any) -> None:
    gate = workshop.Gate()
    partner = threading.Thread(target=interrupt_when_waiting, args=(gate,))
    partner.start()
    with pytest.raises(KeyboardInterrupt):
        gate.pass_through()
    partner.join()
    gate.open()
    assert gate.meaning() == 42


def interrupt_when_waiting(gate: Any) -> None:
    gate.wait_for_caller()
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
