"""What plain tasks write, as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibernb.config import Config
from fibernb.notebook.grouping import Block, LeftOut, Line, Rich
from fibernb.notebook.printing import RANKS, Labels, Printer
from fibernb.notebook.task_output import BURST, Pace, TaskOutput
from tests.notebook.saying import clear, display, rich, text


class Screen(Printer):
    """Keeps what is shown, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.shown: list[Block] = []
        self.messages_at_s: list[float] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def show(self, blocks: Iterable[Block], labels: Labels = RANKS) -> int:
        more = list(blocks)
        self.shown += more
        self.messages_at_s += [self.now_s] * len(more)
        return len(more)

    def later(self, pause_s: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now_s + pause_s, call))

    def go_to(self, now_s: float) -> None:
        """Let the time pass, with what falls due meanwhile."""
        while due := [timer for timer in self.timers if timer[0] <= now_s]:
            timer = min(due, key=lambda timer: timer[0])
            self.timers.remove(timer)
            self.now_s = timer[0]
            timer[1]()
        self.now_s = now_s

    @property
    def items(self) -> list[tuple[int, Line | Rich | LeftOut]]:
        return [(block.ranks[0], item) for block in self.shown for item in block.items]


@pytest.fixture
def screen() -> Screen:
    return Screen()


def output_on(screen: Screen, lines: int = 1000, size_bytes: int = 1_000_000) -> TaskOutput:
    config = Config(output_limit_lines=lines, output_limit_bytes=size_bytes)
    return TaskOutput(screen, screen.later, config, lambda: screen.now_s)


def test_the_first_lines_are_shown_at_once(screen: Screen) -> None:
    output = output_on(screen)
    output.take(text("a\nb\n", rank=3))
    assert screen.items == [(3, Line("stdout", "a")), (3, Line("stdout", "b"))]
    assert screen.timers == []


def test_a_line_is_shown_when_it_has_its_end(screen: Screen) -> None:
    output = output_on(screen)
    output.take(text("a", task=1))
    output.take(text("b", task=2))
    output.take(text(" 1\n", task=1))
    assert screen.items == [(0, Line("stdout", "a 1"))]
    output.end()
    assert screen.items[1:] == [(0, Line("stdout", "b"))]
    output.take(text("late", task=3))
    assert screen.items[2:] == [(0, Line("stdout", "late"))]


def test_a_flood_takes_few_messages_and_loses_nothing_within_the_limit(screen: Screen) -> None:
    output = output_on(screen)
    for number in range(400):
        screen.go_to(number / 100)
        output.take(text(f"{number}\n"))
    output.end()
    assert [item for _, item in screen.items] == [Line("stdout", f"{number}") for number in range(400)]
    in_a_second = [sum(at <= other < at + 1 for other in screen.messages_at_s) for at in screen.messages_at_s]
    assert BURST <= max(in_a_second) <= 10


def test_what_does_not_fit_is_counted_and_the_end_is_shown(screen: Screen) -> None:
    output = output_on(screen, lines=10)
    for number in range(100):
        output.take(text(f"{number}\n", task=number, rank=number % 4))
    screen.go_to(10)
    assert [item for _, item in screen.items] == [Line("stdout", f"{number}") for number in range(5)]
    output.end()
    gap, *rest = [item for _, item in screen.items[5:]]
    assert isinstance(gap, LeftOut)
    assert gap.lines == 90
    assert rest == [Line("stdout", f"{number}") for number in range(95, 100)]
    assert next(block for block in screen.shown if gap in block.items).ranks == (0, 1, 2, 3)


def test_what_comes_after_the_end_of_its_cell_is_bounded_too(
    screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    output = output_on(screen, lines=10)
    output.take(text("a\n"))
    output.end()
    for number in range(100):
        output.take(text(f"{number}\n"))
    screen.go_to(10)
    assert len(screen.items) == 10
    assert capsys.readouterr().out == "… more output of this cell's tasks is in %fiber log …\n"


def test_displays_are_bounded(screen: Screen) -> None:
    output = output_on(screen, lines=16, size_bytes=1000)
    for number in range(10):
        output.take(display(plain=f"{number}"))
    output.take(display(plain="x" * 1001))
    output.end()
    shown = [item for _, item in screen.items]
    assert shown[:2] == [rich(plain="0"), rich(plain="1")]
    gaps = [item for item in shown if isinstance(item, LeftOut)]
    assert sum(gap.displays for gap in gaps) + sum(isinstance(item, Rich) for item in shown) == 11


def test_of_the_updates_that_wait_only_the_latest_is_shown(screen: Screen) -> None:
    output = output_on(screen)
    output.take(display(display_id="d", plain="first"))
    for number in range(100):
        screen.go_to(number / 100)
        output.take(display("update", "d", plain=f"{number}"))
    output.end()
    updates = [item for _, item in screen.items[1:]]
    assert updates[-1] == rich("d", plain="99")._replace(update=True)
    assert len(updates) <= 10


def test_clearing_does_not_take_away_what_others_wrote(screen: Screen) -> None:
    output = output_on(screen)
    output.take(text("a\n"))
    output.take(clear(wait=False))
    output.take(text("b\n"))
    output.end()
    assert [item for _, item in screen.items] == [Line("stdout", "a"), Line("stdout", "b")]


@given(st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 3)), max_size=50))
def test_never_more_than_ten_messages_in_a_second(waits: list[tuple[float, int]]) -> None:
    now_s = 0.0
    pace = Pace(lambda: now_s)
    sent_at_s: list[float] = []
    for wait_s, messages in waits:
        now_s += max(wait_s, pace.pause_s() + 1e-9)
        pace.spend(messages)
        sent_at_s += [now_s] * messages
    for at_s in sent_at_s:
        assert sum(at_s <= other < at_s + 1 for other in sent_at_s) <= 10 + 2  # the last ones may be three at once
