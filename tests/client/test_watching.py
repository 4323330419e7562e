"""What the hub tells of the cluster while a cell runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from fibernb import serialize
from fibernb.client.cells import CellHandle
from fibernb.client.refs import ObjectRef
from fibernb.client.session import Session
from fibernb.client.watching import Watch
from fibernb.core.messages import SeatStatus, Status
from fibernb.errors import TaskCancelled, WorkerDied
from fibernb.model import Outcome, Result


class FakeSession:
    """Counts how often the hub is asked."""

    over: str | None = None

    def __init__(self) -> None:
        self.inbox = SimpleNamespace(status=None)
        self.asked = 0

    def ask_status(self) -> None:
        self.asked += 1


def status_of(*seats: SeatStatus) -> Status:
    return Status(
        request=0, seats=2, ready=2, busy=1, starting=0, waiting=0, queued=0, running=1, finished=0, failed=0,
        refused=0, engines=list(seats), clients=1, pending=[],
    )  # fmt: skip


def ref(id_: int, answer: Result | None = None) -> ObjectRef:
    return cast(ObjectRef, SimpleNamespace(id=id_, answer=answer, done=lambda: answer is not None))


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


def handle_of(session: FakeSession, *refs: ObjectRef) -> CellHandle:
    return CellHandle(cast(Session, session), range(len(refs)), refs)


def test_words_of_the_time_before_do_not_count(session: FakeSession) -> None:
    session.inbox.status = status_of()
    watch = Watch(cast(Session, session))
    assert watch.told() is None
    session.inbox.status = told = status_of()
    assert watch.told() is told


def test_the_hub_is_not_asked_all_the_time(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr("fibernb.client.watching.time", SimpleNamespace(monotonic=lambda: now))
    watch = Watch(cast(Session, session))
    watch.ask()
    watch.ask()
    assert session.asked == 1
    now += 0.3
    watch.ask()
    assert session.asked == 2
    now += 0.3
    session.over = "the cluster has stopped"
    watch.ask()
    assert session.asked == 2


def test_a_rank_is_replaced_when_the_hub_says_so_after_its_death(session: FakeSession) -> None:
    died = serialize.dumps_error(WorkerDied(0, "here", exit_code=3))
    handle = handle_of(session, ref(1, Result(1, died, Outcome.ERROR)), ref(2))
    session.inbox.status = status_of(SeatStatus(rank=0, engine=5, state="busy", task=1))  # of the time before the death
    assert handle.states() == ["lost", "waiting"]
    session.inbox.status = status_of(SeatStatus(rank=0, engine=0, state="starting"))
    assert handle.states() == ["lost", "waiting"]
    session.inbox.status = status_of(SeatStatus(rank=0, engine=6, state="idle"))
    assert handle.states() == ["replaced", "waiting"]
    assert handle.cluster_status() is session.inbox.status


def test_what_was_cancelled_has_not_failed(session: FakeSession) -> None:
    replaced = TaskCancelled("its engine did not stop")
    replaced.engine_replaced = True
    errors = [TaskCancelled("before it began"), KeyboardInterrupt(), replaced]
    refs = [ref(i, Result(i, serialize.dumps_error(error), Outcome.CANCELLED)) for i, error in enumerate(errors)]
    assert handle_of(session, *refs).states() == ["cancelled", "cancelled", "replaced"]
