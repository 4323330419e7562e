"""Progress bars of plain tasks."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from IPython.core.interactiveshell import InteractiveShell

from fibernb.core.messages import Progress
from fibernb.model import Bar
from fibernb.notebook import task_bars
from fibernb.notebook.snapshot import MAX_BARS
from fibernb.notebook.task_bars import TaskBars, bars_for

cell = contextvars.ContextVar("cell", default="")


class Front:
    """What a front end is told, and a clock that ticks when the test says so."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, bool]] = []
        self.due: list[Callable[[], None]] = []
        self.ids: set[str] = set()

    def publish(self, bundle: dict[str, str], display_id: str, is_shown: bool) -> None:
        assert set(bundle) == {"text/plain", "text/html"}
        self.ids.add(display_id)
        self.shown.append((cell.get(), bundle["text/plain"], is_shown))

    def later(self, pause_s: float, call: Callable[[], None]) -> None:
        assert pause_s > 0
        self.due.append(call)

    def tick(self) -> None:
        due, self.due = self.due, []
        for call in due:
            call()

    @property
    def text(self) -> str:
        return self.shown[-1][1]


@pytest.fixture
def front() -> Front:
    return Front()


@pytest.fixture
def bars(front: Front) -> TaskBars:
    cell.set("first")
    made = TaskBars(front.publish, front.later)
    cell.set("later")
    return made


def moved(task: int, done: int, rank: int = 0, **fields: Any) -> Progress:
    return Progress(task=task, rank=rank, sequence=0, bars=[Bar(bar=1, done=done, total=10, **fields)])


def test_one_display_of_its_cell_moves_at_most_so_often(bars: TaskBars, front: Front) -> None:
    for done in range(5):
        bars.take(moved(7, done))
    assert len(front.due) == 1
    assert front.shown == []
    front.tick()
    front.tick()
    assert front.shown == [("first", "[0] 4/10 it (40%)", False)]
    bars.take(moved(7, 6))
    front.tick()
    assert front.shown[1:] == [("first", "[0] 6/10 it (60%)", True)]
    assert len(front.ids) == 1


def test_what_is_due_at_the_end_of_the_cell_is_shown_then(bars: TaskBars, front: Front) -> None:
    bars.show()
    assert front.shown == []
    bars.take(moved(7, 10, closed=True))
    bars.show()
    assert front.text == "[0] 10/10 it (100%)"
    front.tick()
    assert len(front.shown) == 1


def test_bars_stand_by_rank_and_engines_beside_the_seats_last(bars: TaskBars, front: Front) -> None:
    for task, rank in enumerate((-2, 1, 0, -1)):
        bars.take(moved(task, 1, rank))
    front.tick()
    assert [line.split("]")[0] for line in front.text.splitlines()] == ["[0", "[1", "[extra 1", "[extra 2"]


def test_open_bars_are_shown_and_of_closed_ones_the_latest_at_the_end(bars: TaskBars, front: Front) -> None:
    for task in range(100):
        bars.take(moved(task, 10, rank=task, closed=True))
    bars.take(moved(100, 3))
    front.tick()
    assert front.text == "[0] 3/10 it (30%)"
    bars.take(moved(100, 10, closed=True))
    front.tick()
    lines = front.text.splitlines()
    assert len(lines) == MAX_BARS
    assert lines[0].startswith("[0] 10/10")
    assert lines[-1].startswith("[99] 10/10")


@pytest.mark.parametrize(("has_kernel", "wanted", "count"), [(True, "1", 1), (True, "0", 0), (False, "1", 0)])
def test_only_a_notebook_that_wants_live_views_shows_them(
    has_kernel: bool, wanted: str, count: int, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIBERNB_PROGRESS", wanted)
    monkeypatch.setattr(task_bars, "_publish", front.publish)
    shell = SimpleNamespace(kernel=None) if has_kernel else SimpleNamespace()
    made = bars_for(cast(InteractiveShell, shell))
    made.take(moved(7, 1))
    made.show()
    assert len(front.shown) == count
