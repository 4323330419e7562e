"""The items of a cell."""

from __future__ import annotations

from typing import cast

import pytest

from fibernb.client.session import Session
from fibernb.config import Config
from fibernb.core.messages import Output, Progress
from fibernb.errors import GetTimeout, TaskCancelled
from fibernb.model import Bar
from fibernb.notebook.each import EachHandle
from fibernb.notebook.snapshot import summary
from fibernb.notebook.work import EachWork, Heard
from tests.notebook.fake_refs import CancellingSession, FakeRef, as_refs


def handle_of(refs: list[FakeRef], session: CancellingSession, *, keep_errors: bool = False) -> EachHandle:
    return EachHandle(cast(Session, session), as_refs(refs), keep_errors=keep_errors)


@pytest.fixture
def session() -> CancellingSession:
    return CancellingSession()


@pytest.fixture
def refs() -> list[FakeRef]:
    return [FakeRef(number) for number in range(3)]


def test_values_in_order(refs: list[FakeRef], session: CancellingSession) -> None:
    handle = handle_of(refs, session)
    for number in (2, 0):
        refs[number].finish(number * 10)
    assert not handle.done()
    assert repr(handle) == "<cell on 3 items: 2 finished>"
    refs[1].finish(10)
    assert handle.result() == [0, 10, 20]


def test_the_first_real_error_is_raised(refs: list[FakeRef], session: CancellingSession) -> None:
    refs[0].finish(TaskCancelled("stopped"))
    refs[1].finish(ValueError("bad"))
    refs[2].finish(1)
    with pytest.raises(ValueError, match="bad") as raised:
        handle_of(refs, session).result()
    assert raised.value.__notes__ == ["item 1; 2 of 3 items failed, --on-error keep gives the others' values"]
    kept = handle_of(refs, session, keep_errors=True).result()
    assert [type(value) for value in kept] == [TaskCancelled, ValueError, int]


def test_all_cancelled(refs: list[FakeRef], session: CancellingSession) -> None:
    for ref in refs:
        ref.finish(TaskCancelled("stopped"))
    with pytest.raises(TaskCancelled):
        handle_of(refs, session).result()


def test_nothing_is_cancelled_by_a_wait_that_ends(refs: list[FakeRef], session: CancellingSession) -> None:
    refs[1].finish(1)
    with pytest.raises(GetTimeout, match=r"2 of 3 items had not finished after 0\.001 s; they go on"):
        handle_of(refs, session).result(0.001)
    assert session.cancelled == []


def test_work(refs: list[FakeRef], session: CancellingSession) -> None:
    checked: list[bool] = []
    heard = Heard(range(3), Config())
    work = EachWork(handle_of(refs, session), lambda: checked.append(True), heard, session.wait, lambda: None)
    assert work.sources == 3
    refs[0].finish(0)
    refs[1].finish(ValueError("one"))
    assert not work.wait(0.001)
    assert summary(work.snapshot()).startswith("▶ 2 of 3 items, 1 left, 1 failed, ")
    work.cancel(force=True)
    assert session.cancelled == [([0, 1, 2], True)]
    refs[2].finish(2)
    assert work.wait(None)
    with pytest.raises(ValueError, match="one"):
        work.outcome()
    assert checked == [True]


def test_heard() -> None:
    heard = Heard(range(1), Config())
    heard.take(0, Progress(task=1, rank=2, sequence=0, bars=[Bar(bar=1, done=1), Bar(bar=2, done=5, closed=True)]))
    heard.take(0, Output(task=1, rank=2, sequence=1, stream="stdout", text="a\nb"))
    assert [bar.bar for _, bar in heard.bars()] == [1]
    heard.take(0, Progress(task=1, rank=2, sequence=2, bars=[Bar(bar=1, done=2, closed=True)]))
    assert [(rank, bar.done) for rank, bar in heard.bars()] == [(2, 2.0), (2, 5.0)]
    assert heard.last_lines() == {0: "b"}
    cleared, (block,) = heard.fresh("auto")
    assert not cleared
    assert [item.text for item in block.items] == ["a"]  # type: ignore[union-attr]
    heard.end(0)
    (block,) = heard.rest("auto").blocks
    assert [item.text for item in block.items] == ["b"]  # type: ignore[union-attr]
