"""The end of a cell is not missed, though an interrupt may hit who was about to tell of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from fibernb.config import Config
from fibernb.notebook.work import CellWork, EachWork, Heard


class SilentHandle:
    """Cells or items whose end nobody is told of."""

    ranks = (0,)

    def __init__(self) -> None:
        self.refs = (self,)
        self.is_done = False

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Never calls it."""

    def done(self) -> bool:
        return self.is_done

    def cancel(self, force: bool = False) -> None:
        self.is_done = True


def cell(handle: SilentHandle) -> CellWork:
    return CellWork(lambda _: cast(Any, handle), lambda: None, Heard([0], Config()), lambda done, _: done())


def items(handle: SilentHandle) -> EachWork:
    return EachWork(cast(Any, handle), lambda: None, Heard([0], Config()), lambda done, _: done(), lambda: None)


@pytest.mark.parametrize("make", [cell, items])
def test_who_was_cancelled_has_ended_with_its_handle(make: Callable[[SilentHandle], CellWork | EachWork]) -> None:
    handle = SilentHandle()
    work = make(handle)
    handle.is_done = True
    assert not work.wait(0)  # what it has said last is still to come
    handle.is_done = False
    work.cancel()
    assert work.wait(0)
