"""What leaves an engine before what, without a hub."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fibernb.core.messages import Done, Output, Run
from fibernb.engine.ledger import Ledger, Verdict
from fibernb.engine.post import Post
from fibernb.engine.reporter import Reporter
from fibernb.model import Call, Result
from fibernb.wire import codec


class Sent:
    """A link to nobody, and all that has left: on it, and beside it as calls of tasks."""

    def __init__(self) -> None:
        self.order: list[Any] = []

    def send(self, data: bytes) -> None:
        message = codec.from_engine.decode(data)
        if isinstance(message, Done):
            self.order.append([result.id for result in message.results])
        elif isinstance(message, Output):
            self.order.append(message.text)


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger()
    made.accept([Run(function=b"f", calls=[Call(task, b"") for task in (11, 12)], position=0)], 0)
    return made


def finish(ledger: Ledger, position: int, task: int) -> None:
    assert ledger.begin(position, task) is Verdict.RUN
    ledger.end(Result(task, b""), 1.0, 0.5)


def post_to(sent: Sent, ledger: Ledger, send_calls: Callable[[], object]) -> Post:
    post = Post("", "", ledger, lambda: None, send_calls)
    post._data = sent  # type: ignore[assignment]
    return post


def test_calls_and_words_of_a_task_leave_before_its_result(ledger: Ledger) -> None:
    sent = Sent()
    reporter = Reporter(lambda: 11, lambda at_once: None)
    reporter.write("stdout", "said")
    finish(ledger, 0, 11)
    assert post_to(sent, ledger, lambda: sent.order.append("calls")).send_news(reporter)
    assert sent.order == ["calls", "said", [11]]


def test_a_task_that_ends_while_the_calls_of_others_leave_waits_for_the_next_time(ledger: Ledger) -> None:
    """Its own calls may not have left with them."""
    sent = Sent()
    reporter = Reporter(lambda: 0, lambda at_once: None)

    def send_calls() -> None:
        sent.order.append("calls")
        if sent.order == ["calls"]:
            finish(ledger, 1, 12)

    finish(ledger, 0, 11)
    post = post_to(sent, ledger, send_calls)
    post.send_news(reporter)
    assert sent.order == ["calls", [11]]
    post.send_news(reporter)
    assert sent.order == ["calls", [11], "calls", [12]]


def test_results_leave_though_the_calls_cannot(ledger: Ledger) -> None:
    sent = Sent()
    finish(ledger, 0, 11)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        post_to(sent, ledger, interrupted).send_news(Reporter(lambda: 0, lambda at_once: None))
    assert sent.order == [[11]]


def test_nothing_is_asked_for_where_there_are_no_results(ledger: Ledger) -> None:
    sent = Sent()
    assert not post_to(sent, ledger, lambda: sent.order.append("calls")).send_news(Reporter(lambda: 0, lambda _: None))
    assert sent.order == []
