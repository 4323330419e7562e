"""How long the server keeps what nobody holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fibernb.multiprocessing.managers import server as module
from fibernb.multiprocessing.managers.server import LINGER_S, Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    registry = {"list": (list, None, None, None)}
    made: Any = Server(registry, str(tmp_path / "socket"), b"key", "pickle")
    yield made
    made.listener.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Its last item is the time."""
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[-1]))
    return now


def made(server: Any) -> str:
    ident: str = server.create(None, "list")[0]
    return ident


def objects(server: Any) -> set[str]:
    return set(server.id_to_obj) - {"0"}


def test_an_object_goes_with_its_last_proxy(server: Any, clock: list[float]) -> None:
    server.decref(None, made(server))
    assert objects(server) == set()


def test_one_that_travels_stays_for_a_while(server: Any, clock: list[float]) -> None:
    ident = made(server)
    server.keep_travelling(None, ident, None)
    server.decref(None, ident)
    assert (objects(server), server.number_of_objects(None)) == ({ident}, 0)
    clock.append(LINGER_S + 1)
    other = made(server)
    assert objects(server) == {other}


def test_one_that_arrives_in_time_stays(server: Any, clock: list[float]) -> None:
    ident = made(server)
    server.keep_travelling(None, ident, None)
    server.keep_travelling(None, ident, None)
    server.decref(None, ident)
    server.incref(None, ident)
    clock.append(LINGER_S + 1)
    other = made(server)
    assert (objects(server), server.number_of_objects(None)) == ({ident, other}, 2)
    server.decref(None, ident)
    assert ident in objects(server)  # somebody may be about to send it on
    clock.append(2 * LINGER_S + 2)
    server.decref(None, other)
    assert objects(server) == set()
