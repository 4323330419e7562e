from __future__ import annotations

import msgspec
import pytest

import fibernb as fnb
from fibernb.client import current, nested
from fibernb.client.session import Session
from fibernb.core import messages as m
from fibernb.errors import ClusterError, GetTimeout
from tests.client.fake_hub import FakeConnector, FakeHub


@pytest.fixture
def task_session(connector: FakeConnector) -> Session:
    return Session(connector, current_task=lambda: 99)


STATE = m.Status(
    request=1,
    seats=2,
    ready=2,
    busy=2,
    starting=0,
    waiting=0,
    queued=1,
    running=2,
    finished=0,
    failed=0,
    refused=0,
    engines=[],
    clients=2,
    pending=[],
)


def test_calls_of_a_task_name_their_parent(task_session: Session, hub: FakeHub) -> None:
    current.use(task_session)
    try:
        assert fnb.get(fnb.remote(abs).remote(-1)) == 1
    finally:
        current.use(None)
        task_session.close()
    assert hub.of(m.Submit)[0].parent == 99


def test_the_only_seat_cannot_wait() -> None:
    with pytest.raises(ClusterError, match="the only one"):
        nested.wait_in_task(
            lambda _done, _timeout: False,
            lambda: msgspec.structs.replace(STATE, seats=1, ready=1, busy=1),
            lambda: False,
            None,
        )


def test_a_full_cluster_is_told_of_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(nested, "PATIENCE_S", -1)
    looks = iter([False, False, False, True])
    assert nested.wait_in_task(lambda _done, _timeout: next(looks), lambda: STATE, lambda: False, None)
    assert capsys.readouterr().err.count("all 2 are taken") == 1


@pytest.mark.parametrize("change", [{"queued": 0}, {"busy": 1}, {"starting": 1}, {"maximum": 5}])
def test_a_cluster_with_room_is_not_starved(change: dict[str, int]) -> None:
    assert nested._starved(msgspec.structs.replace(STATE, **change)) == ""


def test_time_limits_hold_in_tasks(task_session: Session, hub: FakeHub) -> None:
    current.use(task_session)
    hub.hold = True
    try:
        with pytest.raises(GetTimeout):
            fnb.get(fnb.remote(abs).remote(-1), timeout=0.02)
    finally:
        current.use(None)
        task_session.close()
