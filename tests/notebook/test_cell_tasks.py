"""Plain tasks and the cells that they belong to."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from fibernb.client import current
from fibernb.client.refs import ObjectRef
from fibernb.client.session import Session
from fibernb.core.messages import Display, Output, Progress
from fibernb.model import Bar, first_id
from fibernb.notebook.cell_tasks import CellTasks
from fibernb.notebook.grouping import Block, LeftOut, Line
from fibernb.notebook.printing import Printer
from fibernb.notebook.task_bars import TaskBars

CLIENT = 7
cell = contextvars.ContextVar("cell", default="")


class FakeSession:
    client = CLIENT

    def __init__(self) -> None:
        self.pending: dict[int, Any] = {}
        self.inbox = SimpleNamespace(on_said=None, catch_up=lambda timeout_s: True)
        self.books = SimpleNamespace(mutex=threading.RLock(), ledger=SimpleNamespace(pending=self.pending))
        self.cancelled: list[ObjectRef] = []
        self._next_id = first_id(CLIENT)

    def new_ids(self, count: int) -> int:
        first = self._next_id
        self._next_id += count
        return first

    def submit(self, number: int) -> int:
        task = self.new_ids(1)
        self.pending[task] = f"ref {number}"
        return task

    def answer(self, task: int) -> None:
        del self.pending[task]

    def cancel(self, refs: list[ObjectRef]) -> None:
        self.cancelled += refs


class RecordingPrinter(Printer):
    def __init__(self) -> None:
        super().__init__()
        self.shown: list[tuple[str, list[Block]]] = []

    def show(self, blocks: Any, labels: Any = None) -> int:
        self.shown.append((cell.get(), list(blocks)))
        return 1

    @property
    def lines(self) -> list[str]:
        items = [item for _, blocks in self.shown for block in blocks for item in block.items]
        return [item.text for item in items if isinstance(item, Line)]


@pytest.fixture
def session() -> Iterator[FakeSession]:
    made = FakeSession()
    current.use(cast(Session, made))
    yield made
    current.use(None)


@pytest.fixture
def printer() -> RecordingPrinter:
    return RecordingPrinter()


@pytest.fixture
def shown_bars() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def tasks(printer: RecordingPrinter, session: FakeSession, shown_bars: list[tuple[str, str]]) -> CellTasks:
    def publish(bundle: dict[str, str], _id: str, _is_shown: bool) -> None:
        shown_bars.append((cell.get(), bundle["text/plain"]))

    return CellTasks(printer, lambda: TaskBars(publish, lambda _pause_s, _call: None))


def ended(error: BaseException | None) -> SimpleNamespace:
    return SimpleNamespace(error_in_exec=error)


def said(task: int, text: str) -> Output:
    return Output(task=task, rank=3, sequence=0, stream="stdout", text=text)


def test_displays_go_to_the_cell_that_submitted(
    tasks: CellTasks, session: FakeSession, printer: RecordingPrinter
) -> None:
    submitted = []
    for number, name in ((1, "first"), (2, "second")):
        cell.set(name)
        tasks.begin_cell()
        submitted.append(session.submit(number))
    assert session.inbox.on_said == tasks.hear
    content = msgspec.json.encode({"data": {}, "metadata": {}})
    for task in (submitted[0], submitted[1], first_id(99)):
        tasks.hear(Display(task=task, rank=0, sequence=0, kind="display", content=content))
    assert [name for name, _ in printer.shown] == ["first", "second", "second"]


def test_what_a_task_says_after_its_answer_goes_to_its_own_cell_as_well(
    tasks: CellTasks, session: FakeSession, printer: RecordingPrinter
) -> None:
    submitted = []
    for number, name in enumerate(("first", "second", "third")):
        cell.set(name)
        tasks.begin_cell()
        submitted.append(session.submit(number))
        session.answer(submitted[-1])
        tasks.end_cell(ended(None))
    for task in submitted:
        tasks.hear(said(task, "late\n"))
    assert [name for name, _ in printer.shown] == ["first", "second", "third"]


def test_bars_move_in_the_cell_that_submitted_and_stand_at_its_end(
    tasks: CellTasks, session: FakeSession, printer: RecordingPrinter, shown_bars: list[tuple[str, str]]
) -> None:
    cell.set("first")
    tasks.begin_cell()
    task = session.submit(1)
    tasks.end_cell(ended(None))
    assert shown_bars == []
    tasks.hear(Progress(task=task, rank=0, sequence=0, bars=[Bar(bar=0, done=1, total=4)]))
    tasks.hear(Progress(task=task, rank=0, sequence=1, bars=[Bar(bar=0, done=2, total=4)]))
    tasks.end_cell(ended(None))
    assert shown_bars == [("first", "[0] 2/4 it (50%)")]
    cell.set("second")
    tasks.begin_cell()
    tasks.hear(Progress(task=task, rank=0, sequence=2, bars=[Bar(bar=0, done=4, total=4, closed=True)]))
    tasks.hear(Progress(task=session.submit(2), rank=0, sequence=0, bars=[Bar(bar=0, done=7)]))
    tasks.end_cell(ended(None))
    assert shown_bars[1:] == [("second", "[0] 7 it")]
    assert printer.shown == []


def test_output_is_bounded(
    tasks: CellTasks, session: FakeSession, printer: RecordingPrinter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIBERNB_OUTPUT_LIMIT_LINES", "4")
    tasks.begin_cell()
    task = session.submit(1)
    for text in ("a\nb\n", "c\nd\n", "e\n", "f\ng"):
        tasks.hear(said(task, text))
    assert printer.lines == ["a", "b"]
    tasks.end_cell(ended(None))
    assert printer.lines == ["a", "b", "f", "g"]
    (gap,) = [item for block in printer.shown[-1][1] for item in block.items if isinstance(item, LeftOut)]
    assert gap.lines == 3


def test_an_interrupted_cell_takes_its_tasks_along(tasks: CellTasks, session: FakeSession) -> None:
    session.submit(1)
    tasks.begin_cell()
    session.submit(2)
    tasks.end_cell(ended(None))
    tasks.end_cell(ended(ValueError()))
    assert session.cancelled == []
    tasks.end_cell(ended(KeyboardInterrupt()))
    assert session.cancelled == ["ref 2"]


@pytest.mark.parametrize("begun", [True, False])
def test_the_cell_that_starts_a_session_shows_what_its_tasks_say(
    begun: bool, tasks: CellTasks, session: FakeSession, printer: RecordingPrinter
) -> None:
    """The cell that loads the extension has begun before it could be told."""
    current.use(None)
    if begun:
        tasks.begin_cell()
    current.on_use.append(tasks.follow)
    try:
        current.use(cast(Session, session))
    finally:
        current.on_use.remove(tasks.follow)
    assert session.inbox.on_said == tasks.hear
    tasks.hear(said(session.submit(1), "a\n"))
    tasks.hear(said(first_id(3), "of a task of a task\n"))
    assert printer.lines == ["a", "of a task of a task"]


def test_a_session_that_began_in_the_cell(tasks: CellTasks, session: FakeSession) -> None:
    current.use(None)
    tasks.begin_cell()
    tasks.hear(said(5, "nobody knows whose"))
    tasks.end_cell(ended(KeyboardInterrupt()))
    current.use(cast(Session, session))
    session.submit(1)
    tasks.end_cell(ended(KeyboardInterrupt()))
    assert session.cancelled == ["ref 1"]
