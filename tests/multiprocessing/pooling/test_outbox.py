from __future__ import annotations

from typing import Any

import pytest

from fibernb.multiprocessing.pooling import outbox as module
from fibernb.multiprocessing.pooling.messages import Answer, Answers, Form
from fibernb.multiprocessing.pooling.outbox import Outbox
from fibernb.multiprocessing.pooling.packing import unpack, unpack_error


class Sent:
    """A channel that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[Answers] = []

    def send(self, message: Answers) -> None:
        self.messages.append(message)

    def answers(self) -> list[Answer]:
        return [answer for message in self.messages for answer in message.answers]

    def told(self) -> list[tuple[int, Form, list[Any]]]:
        return [(answer.piece, answer.values.form, list(unpack(answer.values))) for answer in self.answers()]


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def outbox(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    monkeypatch.setattr(module, "FLUSH_S", 3600.0)
    made = Outbox(sent)  # type: ignore[arg-type]
    made.flush()
    return made


def test_values_wait_for_each_other(outbox: Outbox, sent: Sent) -> None:
    outbox.begin(1)
    for value in (1, 2, "three"):
        outbox.add(value)
    assert sent.messages == []
    assert outbox.is_filled()
    outbox.flush()
    assert sent.told() == [(1, Form.TOGETHER, [1, 2, "three"])]
    assert not outbox.is_filled()


def test_values_of_several_pieces_travel_in_one_message(outbox: Outbox, sent: Sent) -> None:
    for piece in (1, 2):
        outbox.begin(piece)
        outbox.add(piece)
    outbox.flush()
    assert len(sent.messages) == 1
    assert sent.told() == [(1, Form.TOGETHER, [1]), (2, Form.TOGETHER, [2])]


def test_a_value_is_as_it_was_when_it_was_given(outbox: Outbox, sent: Sent) -> None:
    shared: list[int] = []
    outbox.begin(1)
    for number in range(3):
        shared.append(number)
        outbox.add(shared)
    outbox.add(7)
    outbox.flush()
    assert sent.told() == [(1, Form.APART, [[0], [0, 1], [0, 1, 2]]), (1, Form.TOGETHER, [7])]


def test_old_values_are_sent_at_once(outbox: Outbox, sent: Sent) -> None:
    outbox.begin(1)
    outbox.add(1)
    outbox.flush_old()
    assert sent.messages == []
    outbox._due = 0.0
    outbox.flush_old()
    assert [values for _, _, values in sent.told()] == [[1]]
    outbox._due = 0.0
    outbox.add(2)
    assert [values for _, _, values in sent.told()] == [[1], [2]]


def test_an_error_goes_with_what_was_before_it(outbox: Outbox, sent: Sent) -> None:
    outbox.begin(1)
    outbox.add(1)
    outbox.fail(ValueError("bad"))
    values, error = sent.answers()
    assert list(unpack(values.values)) == [1]
    assert error.values.form is Form.ERROR
    assert repr(unpack_error(error.values.data[0])) == "ValueError('bad')"


def test_a_value_that_cannot_be_pickled_is_an_error_of_the_librarys(outbox: Outbox, sent: Sent) -> None:
    class Refusing:
        def __reduce__(self) -> str:
            raise RuntimeError("cannot be pickled")

    outbox.begin(1)
    outbox.add(Refusing())
    (answer,) = sent.answers()
    error = unpack_error(answer.values.data[0])
    assert type(error).__name__ == "MaybeEncodingError"
    assert error.exc == "RuntimeError('cannot be pickled')"  # type: ignore[attr-defined]
    assert error.__cause__ is None
