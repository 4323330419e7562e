"""Messages to the front end are few, however many cells run."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fibernb.notebook.snapshot import Snapshot
from fibernb.notebook.turns import Turns
from fibernb.notebook.view import NoView
from fibernb.notebook.work import Work


class LoggingView(NoView):
    def __init__(self, log: list[str], name: str) -> None:
        self._log = log
        self._name = name

    def show(self, snapshot: Snapshot) -> None:
        self._log.append(self._name)


class FakeWork:
    def snapshot(self) -> Any:
        return None


def take(*turns: Turns, times: int) -> None:
    for _ in range(times):
        for cell in turns:
            cell.take(cast(Work, FakeWork()))


@pytest.mark.parametrize("cells", [1, 2, 5])
def test_cells_that_run_share_the_messages(cells: int) -> None:
    log: list[str] = []
    turns = [Turns(LoggingView(log, f"cell {number}"), lambda: 0) for number in range(cells)]
    for cell in turns:
        cell.__enter__()
    take(*turns, times=30 * cells)
    for cell in turns:
        cell.__exit__(None, None, None)
    assert [log.count(f"cell {number}") for number in range(cells)] == [30] * cells


def test_a_cell_that_is_left_alone_has_every_turn() -> None:
    log: list[str] = []

    def end_badly() -> None:
        with Turns(LoggingView(log, "ends"), None):
            take(stays, times=2)
            raise ValueError("ended")

    with Turns(LoggingView(log, "stays"), None) as stays:
        with pytest.raises(ValueError, match="ended"):
            end_badly()
        assert log == ["stays"]
        take(stays, times=5)
    assert log == ["stays"] * 6
