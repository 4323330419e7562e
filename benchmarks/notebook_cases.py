"""What a notebook's user feels: how soon output comes, how soon a cell stops, how much a front end has to take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from benchmarks.front_end import FrontEnd, Message, front_end, is_idle
from benchmarks.report import Check, Table, number

SIZES: Final = (1, 64, 1024)
STOPPED_AT: Final = 64  # engines, for the figures that are held to a bound
WATCH_S: Final = 5.0
ENDLESS: Final = "%%parallel\nimport time\nwhile True: time.sleep(0.1)"
TALKING: Final = """%%parallel
import time, fibernb as fnb
for step in fnb.progress(range(10_000), desc='steps'):
    print('rank', rank, 'is at step', step)
    time.sleep(0.1)"""


class Load(NamedTuple):
    """What a running cell sends to front ends, in a second."""

    size_bytes: float
    messages: float


class Feel(NamedTuple):
    """The figures at one size; times in seconds, of all engines."""

    first_output_s: float
    interrupt_s: float
    click_s: float
    load: Load


def first_output_s(user: FrontEnd) -> float:
    """From sending a cell to the first that it prints."""
    begin = time.perf_counter()
    cell = user.start("%%parallel\nprint('ready')")
    *_, first = user.until(cell, lambda message: message.kind == "stream")
    list(user.until(cell, is_idle))
    return first.at_s - begin


def stop_s(user: FrontEnd, stop: Callable[[str], None]) -> float:
    """From pressing what stops a cell, given its Cancel button, to the kernel's being idle."""
    cell = user.start(ENDLESS)
    button = ""
    for message in user.until(cell, lambda message: message.kind == "display_data"):
        button = button_of(message) or button
    user.for_seconds(0.5)
    begin = time.perf_counter()
    stop(button)
    *_, last = user.until(cell, is_idle)
    return last.at_s - begin


def button_of(message: Message) -> str:
    """The comm of the button that this message opens; empty if it opens none."""
    state = message.content.get("data", {}).get("state", {}) if message.kind == "comm_open" else {}
    return str(message.content["comm_id"]) if state.get("_model_name") == "ButtonModel" else ""


def load_of_talking(user: FrontEnd) -> Load:
    """What comes while every engine prints ten lines a second and moves a bar."""
    cell = user.start(TALKING)
    list(user.until(cell, lambda message: message.kind == "display_data"))
    messages = user.for_seconds(WATCH_S)
    user.interrupt()
    list(user.until(cell, is_idle))
    return Load(sum(message.size_bytes for message in messages) / WATCH_S, len(messages) / WATCH_S)


def feel_at(user: FrontEnd, engines: int, repeats: int) -> Feel:
    """The medians at this size."""

    def median(measure: Callable[[], float]) -> float:
        return statistics.median(measure() for _ in range(repeats))

    user.run(f"%fiber scale {engines}")
    user.run("%%parallel\nimport time, fibernb")
    stop_s(user, user.click)  # the first interrupt finds pages that engines still share
    return Feel(
        first_output_s=median(lambda: first_output_s(user)),
        interrupt_s=median(lambda: stop_s(user, lambda _: user.interrupt())),
        click_s=median(lambda: stop_s(user, user.click)),
        load=load_of_talking(user),
    )


def checks_of(feels: dict[int, Feel]) -> list[Check]:
    """The figures that are held to a bound."""
    largest = max(feels)
    stopped = feels[STOPPED_AT]
    of = f", {STOPPED_AT} engines"
    told = [
        (f"a running cell: from the stop button to an idle kernel{of}", stopped.interrupt_s, "s", 0.5),
        (f"a running cell: from a click on Cancel to an idle kernel{of}", stopped.click_s, "s", 0.5),
        (f"a cell that prints: to its first output{of}", feels[STOPPED_AT].first_output_s, "s", 0.5),
        (
            f"{largest:,} engines that all print: sent to front ends",
            feels[largest].load.size_bytes / 1000,
            "kB/s",
            1000,
        ),
        (f"{largest:,} engines that all print: messages to front ends", feels[largest].load.messages, "a second", 10),
    ]
    return [
        Check(what=what, figure=figure, unit=unit, bound=bound, sense="at most") for what, figure, unit, bound in told
    ]


def notebook_figures(repeats: int) -> tuple[list[Check], Table]:
    with front_end() as user:
        feels = {engines: feel_at(user, engines, repeats) for engines in SIZES}
    rows = [
        (
            f"{engines:,}",
            number(feel.first_output_s),
            number(feel.interrupt_s),
            number(feel.click_s),
            number(feel.load.size_bytes / 1000),
            number(feel.load.messages),
        )
        for engines, feel in feels.items()
    ]
    table = Table(
        title="Cells in a notebook",
        note="Measured by a front end without a browser. First output: from sending a cell that prints to the first of "
        "it. Stop: from pressing until the kernel is idle and every engine free, while all of them sleep in a loop. "
        "The load is what front ends are sent while every engine prints ten lines a second and moves a progress bar; "
        "a Jupyter server drops output above 1,000 kB/s.",
        head=(
            "engines",
            "first output, s",
            "stop button, s",
            "click on Cancel, s",
            "load, kB/s",
            "messages a second",
        ),
        rows=rows,
    )
    return checks_of(feels), table
