"""What tasks say, collected and numbered."""

from __future__ import annotations

import threading

import msgspec
import pytest

from fibernb.core.messages import Display, Output, Progress
from fibernb.engine import reporter as reporter_module
from fibernb.engine.reporter import Reporter, owner
from fibernb.progress import LiveBar


class Desk:
    """A reporter and the task that runs."""

    def __init__(self) -> None:
        self.task = 5
        self.news: list[bool] = []
        self.reporter = Reporter(lambda: self.task, self.news.append)
        self.reporter.rank = 2

    def texts(self) -> list[tuple[int, int, str, str]]:
        return [
            (said.task, said.sequence, said.stream, said.text)
            for said in self.reporter.take()
            if isinstance(said, Output)
        ]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_text_is_joined_until_task_or_stream_changes(desk: Desk) -> None:
    for text in ("a", "b\n"):
        desk.reporter.write("stdout", text)
    desk.reporter.write("stderr", "c")
    desk.task = 6
    desk.reporter.write("stderr", "d")
    assert desk.texts() == [(5, 0, "stdout", "ab\n"), (5, 1, "stderr", "c"), (6, 0, "stderr", "d")]
    assert desk.texts() == []
    desk.reporter.write("stdout", "later", task=5)
    assert desk.texts() == [(5, 2, "stdout", "later")]


def test_streams_that_go_back_and_forth_all_the_time_are_put_together(desk: Desk) -> None:
    for number in range(1000):
        desk.reporter.write("stdout" if number % 2 else "stderr", f"{number} ")
    texts = desk.texts()
    assert len(texts) == reporter_module.MAX_TURNS
    for stream, first in (("stderr", 0), ("stdout", 1)):
        written = "".join(text for _, _, name, text in texts if name == stream)
        assert written == "".join(f"{number} " for number in range(first, 1000, 2))


def test_text_stays_behind_the_display_that_it_follows(desk: Desk) -> None:
    for number in range(100):
        desk.reporter.write("stdout" if number % 2 else "stderr", f"{number} ")
    desk.reporter.display("display", {"data": {}})
    desk.reporter.write("stdout", "after")
    *_, shown, last = desk.reporter.take()
    assert isinstance(shown, Display)
    assert isinstance(last, Output)
    assert last.text == "after"


def test_text_that_no_message_can_carry_is_replaced(desk: Desk) -> None:
    desk.reporter.write("stdout", "a\ud800ü")
    assert desk.texts()[0][3] == "a?ü"


def test_much_text_is_sent_at_once(desk: Desk) -> None:
    desk.reporter.write("stdout", "a" * 10)
    desk.reporter.write("stdout", "a" * reporter_module.FULL_CHARACTERS)
    assert desk.news == [False, True]


def test_what_a_thread_says_belongs_to_the_task_that_started_it(desk: Desk) -> None:
    go = threading.Event()

    def work() -> None:
        go.wait()
        desk.reporter.write("stdout", "from thread")

    thread = threading.Thread(target=work)
    desk.reporter.adopt_thread(thread)
    thread.start()
    desk.task = 6
    go.set()
    thread.join()
    assert desk.texts() == [(5, 0, "stdout", "from thread")]


def test_what_a_coroutine_says_belongs_to_its_cell(desk: Desk) -> None:
    token = owner.set(9)
    desk.reporter.write("stdout", "x")
    owner.reset(token)
    desk.reporter.write("stdout", "y")
    assert [text[0] for text in desk.texts()] == [9, 5]


def test_displays_keep_their_place_between_texts(desk: Desk) -> None:
    desk.reporter.write("stdout", "before")
    desk.reporter.display("display", {"data": {"image/png": b"\x89PNG", "n": object}, "metadata": {}, "transient": {}})
    desk.reporter.write("stdout", "after")
    first, display, last = desk.reporter.take()
    assert isinstance(first, Output)
    assert isinstance(last, Output)
    assert isinstance(display, Display)
    assert (display.task, display.rank, display.sequence, display.kind) == (5, 2, 1, "display")
    assert msgspec.json.decode(display.content)["data"]["image/png"] == "iVBORw=="


def test_bars_are_reported_when_they_move(desk: Desk) -> None:
    bar = LiveBar("work", 10)
    desk.reporter.add_bar(bar)
    (message,) = desk.reporter.take()
    assert isinstance(message, Progress)
    assert [(b.bar, b.description, b.done, b.total, b.closed) for b in message.bars] == [(1, "work", 0.0, 10, False)]
    assert desk.reporter.take() == []
    bar.done = 4
    (message,) = desk.reporter.take()
    assert isinstance(message, Progress)
    assert (message.sequence, message.bars[0].done) == (1, 4)


def test_bars_are_closed_with_their_task_and_then_let_go(desk: Desk) -> None:
    bar, other = LiveBar(), LiveBar()
    desk.reporter.add_bar(bar)
    desk.task = 6
    desk.reporter.add_bar(other)
    desk.reporter.close_bars(5)
    closed = {b.bar: b.closed for said in desk.reporter.take() if isinstance(said, Progress) for b in said.bars}
    assert closed == {1: True, 2: False}
    bar.done = 7
    assert desk.reporter.take() == []
    desk.reporter.close_bars(6)
    desk.reporter.take()
    assert not desk.reporter.has_news


def test_numbers_of_tasks_long_ended_are_let_go(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter_module, "MAX_TASKS", 2)
    for desk.task in (1, 2, 3, 1):
        desk.reporter.write("stdout", "x")
    assert [(task, sequence) for task, sequence, *_ in desk.texts()] == [(1, 0), (2, 0), (3, 0), (1, 0)]
