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
from fibernb.model import first_id
from fibernb.notebook.cell_tasks import CellTasks
from fibernb.notebook.grouping import Block
from fibernb.notebook.printing import Printer

CLIENT = 7
cell = contextvars.ContextVar("cell", default="")


class FakeSession:
    client = CLIENT

    def __init__(self) -> None:
        self.pending: dict[int, Any] = {}
        self.inbox = SimpleNamespace(on_said=None)
        self.books = SimpleNamespace(mutex=threading.RLock(), ledger=SimpleNamespace(pending=self.pending))
        self.cancelled: list[ObjectRef] = []

    def submit(self, number: int) -> int:
        task = first_id(CLIENT) + number
        self.pending[task] = f"ref {number}"
        return task

    def cancel(self, refs: list[ObjectRef]) -> None:
        self.cancelled += refs


class RecordingPrinter(Printer):
    def __init__(self) -> None:
        super().__init__()
        self.shown: list[tuple[str, list[Block]]] = []

    def show(self, blocks: Any, labels: Any = None) -> None:
        self.shown.append((cell.get(), list(blocks)))


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
def tasks(printer: RecordingPrinter, session: FakeSession) -> CellTasks:
    return CellTasks(printer)


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
    tasks.hear(Progress(task=submitted[0], rank=0, sequence=1, bars=[]))
    assert len(printer.shown) == 3


def test_output_is_bounded(
    tasks: CellTasks, session: FakeSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIBERNB_OUTPUT_LIMIT_LINES", "3")
    tasks.begin_cell()
    task = session.submit(1)
    for text in ("a\nb\n", "c\nd\n", "e\n"):
        tasks.hear(said(task, text))
    assert capsys.readouterr().out.splitlines() == [
        "[3] a",
        "[3] b",
        "[3] c",
        "… more output of this cell's tasks is in %fiber log …",
    ]


def test_an_interrupted_cell_takes_its_tasks_along(tasks: CellTasks, session: FakeSession) -> None:
    session.submit(1)
    tasks.begin_cell()
    session.submit(2)
    tasks.end_cell(ended(None))
    tasks.end_cell(ended(ValueError()))
    assert session.cancelled == []
    tasks.end_cell(ended(KeyboardInterrupt()))
    assert session.cancelled == ["ref 2"]


def test_a_session_that_began_in_the_cell(tasks: CellTasks, session: FakeSession) -> None:
    current.use(None)
    tasks.begin_cell()
    tasks.hear(said(5, "nobody knows whose"))
    tasks.end_cell(ended(KeyboardInterrupt()))
    current.use(cast(Session, session))
    session.submit(1)
    tasks.end_cell(ended(KeyboardInterrupt()))
    assert session.cancelled == ["ref 1"]
