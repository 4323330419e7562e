"""Completing the lines of the magics: verbs, options, ranks, names of variables, clusters and settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from fibernb import config as configuration
from fibernb.client.api import BACKENDS
from fibernb.notebook.arguments import Argument, Command
from fibernb.notebook.commands import CELL, EXPRESSION, VERBS
from fibernb.notebook.names import RANK_NAMES

MAX_RANKS: Final = 64
"""Of more ranks than these, only the first are offered."""

_LAST_RANK: Final = re.compile(r"(?P<before>(?:.*[,!:])?)(?P<number>\d*)")
_LAST_NAME: Final = re.compile(r"(?<![\w.'\")\]}])(?:[^\W\d]\w*)?$")


class Known(Protocol):
    """What words can stand for in this notebook."""

    def size(self) -> int:
        """How many seats there are; 0 without a cluster."""

    def clusters(self) -> list[str]:
        """The clusters that run."""

    def names(self) -> list[str]:
        """Variables of the notebook, and what its cells have assigned on engines."""


def candidates(line: str, known: Known) -> list[str]:
    """What the last word of a line of a magic could become; empty if the line is not one of ours. Pure."""
    words = line.split()
    last = "" if not words or line[-1:].isspace() else words.pop()
    match words:
        case ["%fiber"]:
            found = sorted([*VERBS, "--help"])
        case ["%fiber", "help"]:
            found = sorted(VERBS)
        case ["%fiber", verb, *rest] if verb in VERBS:
            found = _words_of(VERBS[verb], rest, last, known)
        case ["%%parallel", *rest]:
            found = _words_of(CELL, rest, last, known)
        case ["%parallel", *_]:
            found = EXPRESSION.options if last.startswith("-") else _names_in_expression(last, known)
        case _:
            found = []
    return [word for word in found if word.startswith(last)]


def _words_of(command: Command, before: Sequence[str], last: str, known: Known) -> list[str]:
    option, equals, value = last.partition("=")
    named = _option_named(command, option)
    if equals and named is not None:
        return [f"{option}={word}" for word in _values(named, value, known)]
    argument, is_complete = _expected(command, before)
    if last.startswith("-"):
        return sorted(command.options)
    values = [] if argument is None else _values(argument, last, known)
    offers_options = is_complete and not last and (argument is None or argument.completes != "files")
    return values + (sorted(command.options) if offers_options else [])


def _expected(command: Command, before: Sequence[str]) -> tuple[Argument | None, bool]:
    """The argument that the next word belongs to, and whether an option may stand there instead."""
    positional = [argument for argument in command.arguments if not argument.is_option]
    current: Argument | None = None
    taken = 0
    for word in before:
        option = _option_named(command, word)
        if option is not None:
            current, taken = (None if option.flag else option), 0
        elif current is not None and current.is_option:
            taken += 1
            current = current if current.takes_many else None
        elif positional and not positional[0].takes_many:
            positional.pop(0)
    if current is not None:
        return current, bool(taken) or current.nargs == "?"
    return (positional[0] if positional else None), True


def _option_named(command: Command, word: str) -> Argument | None:
    return next((argument for argument in command.arguments if argument.is_option and word in argument.names), None)


def _values(argument: Argument, typed: str, known: Known) -> list[str]:
    if argument.choices is not None:
        return sorted(argument.choices)
    if argument.metavar == "NAMES" and "," in typed:  # a list with commas
        head = typed.rpartition(",")[0]
        return [f"{head},{name}" for name in known.names()]
    return _PROVIDERS[argument.completes](typed, known)


def _names_in_expression(typed: str, known: Known) -> list[str]:
    """The last name of an expression may become one of these; attributes are left to IPython."""
    found = _LAST_NAME.search(typed)
    if found is None:
        return []
    return [f"{typed[: found.start()]}{name}" for name in sorted({*known.names(), *RANK_NAMES})]


def _ranks(typed: str, known: Known) -> list[str]:
    """Numbers that could follow, and, where nothing is typed yet, what else there is to write."""
    size = known.size()
    found = _LAST_RANK.fullmatch(typed)
    if found is None or not size:
        return []
    before = found["before"]
    last = size + 1 if before.endswith(":") else size
    numbers = [str(rank) for rank in range(last) if str(rank).startswith(found["number"])]
    patterns = [] if before or size == 1 else ["!0", "::2", f"0:{size // 2}"]
    return [*(before + number for number in numbers[:MAX_RANKS]), *patterns]


def _seats(_typed: str, known: Known) -> list[str]:
    size = known.size()
    return [str(max(4, 2 * size)), "+1", "-1", "0"] if size else ["4"]


def _settings(typed: str, _known: Known) -> list[str]:
    key, equals, _ = typed.partition("=")
    if not equals:
        return sorted(f"{name}=" for name in configuration.KEYS if name != "locked")
    is_switch = isinstance(getattr(configuration.DEFAULTS, key, None), bool)
    return [f"{key}=false", f"{key}=true"] if is_switch else []


_PROVIDERS: Final[dict[str, Callable[[str, Known], list[str]]]] = {
    "": lambda _typed, _known: [],
    "backends": lambda _typed, _known: sorted(BACKENDS),
    "bounds": lambda _typed, known: ["off", f"0:{max(4, known.size())}"],
    "clusters": lambda _typed, known: known.clusters(),
    "files": lambda _typed, _known: [],  # IPython completes them
    "names": lambda _typed, known: known.names(),
    "ranks": _ranks,
    "seats": _seats,
    "settings": _settings,
}


def matcher_for(known: Known) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """A matcher for IPython that completes our lines; where it knows something, nothing else is offered."""

    @context_matcher(identifier="fibernb")  # type: ignore[untyped-decorator]
    def match(context: CompletionContext) -> SimpleMatcherResult:
        words = candidates(context.text_until_cursor.lstrip(), known)
        return {
            "completions": [SimpleCompletion(word, type="param") for word in words],
            "suppress": bool(words),
            "matched_fragment": context.text_until_cursor.rpartition(" ")[2],
            "ordered": True,
        }

    return match  # type: ignore[no-any-return]
