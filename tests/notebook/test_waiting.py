import asyncio
import os
import signal
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fibernb.errors import CellTimeout
from fibernb.notebook.snapshot import Snapshot
from fibernb.notebook.view import NoView
from fibernb.notebook.waiting import wait_for, wait_in_loop
from fibernb.notebook.work import Work

Wait = Callable[..., None]


class FakeWork:
    """Ends after some calls of `wait` that wait, or when it is stopped."""

    def __init__(self, ends_after: int | None, stops_at: int = 1) -> None:
        self.handle = SimpleNamespace(timed_out="")
        self.cancels: list[bool] = []  # with force, or without
        self.waits = self.asked = 0
        self.on_wait: Callable[[int], None] = lambda number: None
        self._ends_after = ends_after
        self._stops_at = stops_at
        self._ended = threading.Event()

    def wait(self, timeout_s: float | None) -> bool:
        if timeout_s:
            self.waits += 1
            self.on_wait(self.waits)
            if self._ends_after is not None and self.waits >= self._ends_after:
                self._ended.set()
            self._ended.wait(min(timeout_s, 0.01))
        return self._ended.is_set()

    def cancel(self, *, force: bool = False) -> None:
        self.cancels.append(force)
        if len(self.cancels) >= self._stops_at:
            self._ended.set()

    def stops(self) -> list[str]:
        return ["rank 1 did not stop"] if True in self.cancels else []

    def ask(self) -> None:
        self.asked += 1

    def snapshot(self) -> Any:
        return None


class SeenView(NoView):
    def __init__(self) -> None:
        self.closed = 0

    def close(self, snapshot: Snapshot) -> None:
        self.closed += 1


def waiting_in_loop(*arguments: Any) -> None:
    asyncio.run(wait_in_loop(*arguments))


@pytest.fixture(params=[wait_for, waiting_in_loop], ids=["blocking", "awaiting"])
def wait(request: pytest.FixtureRequest) -> Wait:
    return cast(Wait, request.param)


def press(_: int = 0) -> None:
    """What a front end does to interrupt."""
    os.kill(os.getpid(), signal.SIGINT)


def test_the_end_is_waited_for(wait: Wait) -> None:
    work, view = FakeWork(ends_after=5), SeenView()
    wait(cast(Work, work), view, None)
    assert (work.cancels, view.closed) == ([], 1)


def test_it_is_asked_how_far_the_work_is_before_the_view_opens(wait: Wait) -> None:
    class AskedView(SeenView):
        def show(self, snapshot: Snapshot) -> None:
            assert work.asked
            work.cancel()

    work, view = FakeWork(ends_after=None), AskedView()
    wait(cast(Work, work), view, None)
    assert (work.cancels, view.closed) == ([False], 1)


def test_time_runs_out(wait: Wait) -> None:
    work, view = FakeWork(ends_after=None), SeenView()
    with pytest.raises(CellTimeout, match=r"longer than 0\.05 s"):
        wait(cast(Work, work), view, 0.05)
    assert (work.cancels, view.closed) == ([False], 1)
    assert work.handle.timed_out == "the cell ran longer than 0.05 s and was cancelled"


def test_an_interrupt_stops_the_work(wait: Wait) -> None:
    work, view = FakeWork(ends_after=None), SeenView()
    work.on_wait = lambda number: press() if number == 3 else None
    with pytest.raises(KeyboardInterrupt):
        wait(cast(Work, work), view, None)
    assert (work.cancels, view.closed) == ([False], 1)


def test_a_second_interrupt_replaces_engines(wait: Wait) -> None:
    work, view = FakeWork(ends_after=None, stops_at=2), SeenView()
    work.on_wait = lambda number: press() if number in (3, 4) else None
    with pytest.raises(KeyboardInterrupt) as raised:
        wait(cast(Work, work), view, None)
    assert (work.cancels, view.closed) == ([False, True], 1)
    assert raised.value.__notes__ == ["rank 1 did not stop"]


def test_further_interrupts_change_nothing(wait: Wait) -> None:
    work, view = FakeWork(ends_after=9, stops_at=99), SeenView()
    work.on_wait = lambda number: press() if 2 < number < 8 else None
    with pytest.raises(KeyboardInterrupt):
        wait(cast(Work, work), view, None)
    assert (work.cancels, view.closed) == ([False, True], 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_cancelled_await_stops_the_work() -> None:
    work, view = FakeWork(ends_after=None), SeenView()

    async def cancelled() -> None:
        task = asyncio.ensure_future(wait_in_loop(cast(Work, work), view, None))
        asyncio.get_running_loop().call_later(0.02, task.cancel)
        await asyncio.wait([task])
        assert isinstance(task.exception(), KeyboardInterrupt)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cancelled())
    assert (work.cancels, view.closed) == ([False], 1)


def test_the_loop_goes_on_while_a_cell_is_awaited() -> None:
    work = FakeWork(ends_after=None)

    async def main() -> None:
        asyncio.get_running_loop().call_later(0.02, work.cancel)  # as a click on the button would
        await wait_in_loop(cast(Work, work), NoView(), None)

    asyncio.run(main())
    assert work.cancels == [False]


def test_an_error_of_the_wait_comes_out() -> None:
    work = FakeWork(ends_after=None)

    def fail(_: int) -> None:
        raise OSError("the link is gone")

    work.on_wait = fail
    with pytest.raises(OSError, match="the link is gone"):
        waiting_in_loop(work, NoView(), None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class CountingView(NoView):
    def __init__(self, log: list[str]) -> None:
        self._log = log

    def show(self, snapshot: Snapshot) -> None:
        self._log.append("view")


def test_the_view_and_the_output_take_turns(wait: Wait, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fibernb.notebook.waiting.PATIENCE_S", 0.0)
    monkeypatch.setattr("fibernb.notebook.waiting.PERIOD_S", 0.01)
    log: list[str] = []
    messages = iter([1, 1, 3, 0, 0, *[1] * 1000])

    def show_output() -> int:
        sent = next(messages)
        log.append(f"output {sent}")
        return sent

    work = FakeWork(ends_after=100)
    wait(cast(Work, work), CountingView(log), None, show_output)
    outputs = ["output 1", "output 1", "output 3", "output 0", "output 0"]
    assert log[:10] == [shown for output in outputs for shown in ("view", output)]
    assert log[10] == "view"
    assert 0 < len(log) - log.count("output 0") <= work.waits - 2, "of three messages two are ahead of their turns"
