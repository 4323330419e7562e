"""Seats that are filling: what is shown meanwhile, and what is said in the end."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from IPython.core.interactiveshell import InteractiveShell

from fibernb.core.messages import SeatsChanged
from fibernb.errors import ScaleTimeout
from fibernb.notebook import seats_view
from fibernb.notebook.seats_view import SeatsView, readiness
from fibernb.notebook.snapshot import Snapshot
from tests.notebook.conftest import Notebook
from tests.notebook.fake_cluster import FakeCluster, FakeClusters
from tests.notebook.test_status_page import seat, status

PATIENCE_S = 30.0


class Screen:
    """Stands for a live view; ``wait_for`` waits until it shows what is looked for."""

    def __init__(self) -> None:
        self.shown: list[Snapshot] = []
        self.closed: list[Snapshot] = []
        self._changed = threading.Condition()

    def show(self, snapshot: Snapshot) -> None:
        with self._changed:
            self.shown.append(snapshot)
            self._changed.notify_all()

    def close(self, snapshot: Snapshot) -> None:
        self.closed.append(snapshot)

    def wait_for(self, is_shown: Callable[[Snapshot], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: any(map(is_shown, self.shown)), PATIENCE_S)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    made = Screen()
    monkeypatch.setattr(seats_view, "view_for", lambda *_, **__: made)
    return made


def test_what_is_shown_while_seats_fill(shell: InteractiveShell, screen: Screen) -> None:
    with SeatsView(shell, 4, wanted=True) as view:
        screen.wait_for(lambda shown: shown.cluster == "the cluster starts" and shown.states == {"done": 0, "left": 4})
        view.show(SeatsChanged(seats=4, ready=1, starting=2, problem="rank 3: cannot fork"))
        screen.wait_for(lambda shown: shown.cluster == "2 starting; rank 3: cannot fork")
        assert screen.shown[-1].states == {"done": 1, "left": 3}
        view.show(SeatsChanged(seats=4, ready=5, starting=0))
        screen.wait_for(lambda shown: shown.states == {"done": 4, "left": 0} and not shown.cluster)
    assert [end.states for end in screen.closed] == [{"done": 4, "left": 0}]
    assert not [thread for thread in threading.enumerate() if thread.name == "fibernb-seats-view"]


def test_it_ends_with_an_error_too(shell: InteractiveShell, screen: Screen) -> None:
    with pytest.raises(ScaleTimeout), SeatsView(shell, 2, wanted=True):
        raise ScaleTimeout("0 of 2")
    assert len(screen.closed) == 1


def test_ready() -> None:
    assert readiness(status([], seats=1, ready=1), 1) == "1 engine ready"
    assert readiness(status([], ready=1024), 1024) == "1,024 engines ready"


def test_why_seats_are_not_filled() -> None:
    engines = [seat(0), seat(1, state="starting"), seat(2, state="wanted"), seat(3, state="wanted")]
    assert readiness(status(engines, ready=1, starting=1, problem="no memory"), 4) == (
        "1 of 4 engines ready; 1 starting; 2 wait for a node; no memory"
    )
    assert readiness(status([seat(0), seat(1, state="wanted")], ready=1, starting=0), 2) == (
        "1 of 2 engines ready; 1 waits for a node"
    )
    assert readiness(status([seat(0)], ready=1, starting=0), 2) == "1 of 2 engines ready; the others go on starting"


def test_seats_that_are_to_go_but_run_something() -> None:
    busy = [seat(rank, state="draining", task=5) for rank in (2, 3)]
    assert readiness(status([seat(0), *busy, seat(4, state="draining")], ready=2), 2) == (
        "2 engines ready; [2-3] leave when what they run has ended"
    )
    assert readiness(status([seat(0), busy[0]], ready=2), 2) == (
        "2 engines ready; [2] leaves when what it runs has ended"
    )


def test_the_verb_says_why(
    notebook: Notebook, clusters: FakeClusters, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters.cluster = FakeCluster(2)
    real = FakeCluster.status
    monkeypatch.setattr(FakeCluster, "status", lambda self: status(real(self).engines, ready=2, problem="cannot fork"))
    notebook.run("%fiber scale 3 --min 2")
    assert notebook.out == "2 of 3 engines ready; 1 starting; cannot fork\n"
    assert [end.total for end in screen.closed] == [3]


def test_the_view_is_there_while_a_cluster_starts(
    notebook: Notebook, clusters: FakeClusters, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = clusters.start

    def slow_start(*arguments: object) -> FakeCluster:
        screen.wait_for(lambda shown: shown.cluster == "the cluster starts" and shown.total == 6)
        return start(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(clusters, "start", slow_start)
    notebook.run("%fiber scale 6")
    assert notebook.out == "6 engines ready\n"
    assert len(screen.closed) == 1
