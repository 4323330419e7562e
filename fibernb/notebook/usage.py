"""What is said to someone who mistyped a magic."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from IPython.core import error

from fibernb.errors import ConfigError


class UsageError(error.UsageError, ConfigError):
    """A magic was called with arguments that it does not understand; shown as one line, without a traceback."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'scale'?`` for the nearest known word, or nothing."""
    nearest = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
