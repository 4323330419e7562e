"""Waiting for a cell: in short ticks, so that its view moves and an interrupt is heard.

What a wait does is told once, in `_course`. `wait_for` goes through it while it blocks; `wait_in_loop` while the
event loop goes on.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Generator
from typing import Final, TypeAlias

from fibernb.errors import CellTimeout
from fibernb.notebook.interrupts import Interrupts
from fibernb.notebook.presses import Presses
from fibernb.notebook.turns import Turns
from fibernb.notebook.view import PATIENCE_S, PERIOD_S, LiveView
from fibernb.notebook.work import Work

STOP_S: Final = 30.0
"""How long to wait for engines that are being replaced."""

ShowOutput: TypeAlias = Callable[[], int]
"""Shows what a cell has written and tells how many messages that took."""

Course: TypeAlias = Generator[float, None, None]
"""Yields for how many seconds to wait next, at most, for the end of the work. Interrupts are thrown in."""


def wait_for(work: Work, view: LiveView, timeout_s: float | None, show_output: ShowOutput | None = None) -> None:
    """Wait until the work has ended, whatever it came to. While it runs the view and ``show_output`` take turns.

    Raises `CellTimeout` when it took longer than ``timeout_s``, and KeyboardInterrupt when the user stopped it. In both
    cases it has been cancelled, and its engines can be used again.
    """
    course = _course(work, view, timeout_s, show_output)
    interrupt: KeyboardInterrupt | None = None
    with Presses():
        while True:
            try:
                work.wait(_next(course, interrupt))
                interrupt = None
            except StopIteration:
                return
            except KeyboardInterrupt as error:
                if inspect.getgeneratorstate(course) == inspect.GEN_CLOSED:
                    raise
                interrupt = error


async def wait_in_loop(
    work: Work, view: LiveView, timeout_s: float | None, show_output: ShowOutput | None = None
) -> None:
    """As `wait_for`; the event loop goes on meanwhile, so buttons work."""
    course = _course(work, view, timeout_s, show_output)
    interrupt: KeyboardInterrupt | None = None
    with Interrupts() as interrupts:
        try:
            while True:
                interrupt = await _pause(work, _next(course, interrupt), interrupts)
        except StopIteration:
            return
        finally:
            await interrupts.calm()


def _next(course: Course, interrupt: KeyboardInterrupt | None) -> float:
    return next(course) if interrupt is None else course.throw(interrupt)


async def _pause(work: Work, pause_s: float, interrupts: Interrupts) -> KeyboardInterrupt | None:
    """Wait for the end of the work. An interrupt ends the wait, and is what comes back."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + pause_s
    try:
        while not interrupts.taken() and not work.wait(0) and (left_s := deadline - loop.time()) > 0:
            ended = loop.run_in_executor(None, work.wait, min(PERIOD_S, left_s))
            await interrupts.wait_or(ended)
    except asyncio.CancelledError:
        return KeyboardInterrupt()
    return interrupts.take()


def _course(work: Work, view: LiveView, timeout_s: float | None, show_output: ShowOutput | None) -> Course:
    try:
        in_time = yield from _watch(work, view, timeout_s, show_output)
        if not in_time:
            work.handle.timed_out = f"the cell ran longer than {timeout_s:g} s and was cancelled"
            raise CellTimeout(work.handle.timed_out)
    except (KeyboardInterrupt, CellTimeout) as error:
        yield from _stop(work)
        for note in work.stops():
            error.add_note(note)
        raise
    finally:
        view.close(work.snapshot())


def _stop(work: Work) -> Course:
    """Cancel the work and wait until its engines are free or replaced; an interrupt meanwhile replaces them at once."""
    work.cancel()
    try:
        yield STOP_S
    except KeyboardInterrupt:
        work.cancel(force=True)
        yield from _replace()


def _replace() -> Course:
    """Wait for new engines. Nothing could make that faster, so further interrupts change nothing."""
    end = time.monotonic() + STOP_S
    while (left_s := end - time.monotonic()) > 0:
        try:
            yield left_s
        except KeyboardInterrupt:
            continue
        return


def _watch(
    work: Work, view: LiveView, timeout_s: float | None, show_output: ShowOutput | None
) -> Generator[float, None, bool]:
    """Whether it ended in time."""
    begin = time.monotonic()
    deadline = float("inf") if timeout_s is None else begin + timeout_s
    with Turns(view, show_output) as turns:
        yield min(PERIOD_S, deadline - begin)
        while not work.wait(0):
            now = time.monotonic()
            if now >= deadline:
                return False
            if now - begin > PATIENCE_S:
                turns.take(work)
            else:
                work.ask()  # so that the first page of the view tells the truth
            yield max(0.0, min(PERIOD_S, deadline - time.monotonic()))
    return True
