"""Tracebacks as text."""

from __future__ import annotations

import itertools
import traceback

import pytest

from fibernb.engine.tracebacks import MAX_CHARACTERS, text_of
from fibernb.errors import RemoteTraceback


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    """An error as it is caught: with the frame that raised it."""
    try:
        raise error from cause
    except Exception as caught:
        return caught


def through(error: Exception, engines: int) -> Exception:
    """An error that came by way of so many engines, each of which raised it again."""
    for _ in range(engines):
        error = raised(type(error)(*error.args), RemoteTraceback(text_of(error)))
    return error


@pytest.mark.parametrize("engines", [0, 1, 2, 5])
def test_an_error_of_other_engines_reads_like_one_of_this(engines: int) -> None:
    lines = text_of(through(raised(ValueError("bad")), engines)).splitlines()
    assert lines.count("Traceback (most recent call last):") == engines + 1
    assert lines.count("ValueError: bad") == engines + 1
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: bad"
    assert "RemoteTraceback" not in "".join(lines)
    assert not any(first == second == "" for first, second in itertools.pairwise(lines))


def test_members_of_groups_as_well() -> None:
    group = ExceptionGroup("both", [through(ValueError("a"), 1), TypeError("b")])
    text = text_of(raised(group))
    assert "RemoteTraceback" not in text
    assert "ValueError: a" in text
    assert "TypeError: b" in text


def test_a_script_shows_where_it_was_raised_on_the_engine() -> None:
    """What Python prints of an error that nobody catches."""
    text = "".join(traceback.format_exception(through(raised(ValueError("bad")), 2)))
    assert text.count("RemoteTraceback") == 1, "the headline of the innermost, which is Python's"
    assert "in raised" in text
    assert "\n\n\n" not in text


def test_what_is_too_long_keeps_both_ends() -> None:
    text = text_of(raised(ValueError("x" * MAX_CHARACTERS)))
    assert len(text) <= MAX_CHARACTERS + len("\n...\n")
    assert text.startswith("Traceback")
    assert text.endswith("x\n")
