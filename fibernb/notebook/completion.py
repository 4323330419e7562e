"""Completing verbs and options of the magics."""

from __future__ import annotations

from collections.abc import Iterable

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from fibernb.notebook.arguments import Argument, Command
from fibernb.notebook.commands import CELL, EXPRESSION, VERBS


def candidates(line: str) -> list[str]:
    """What the last word of a line of a magic could become; empty if the line is not one of ours. Pure."""
    words = line.split()
    last = "" if not words or line[-1:].isspace() else words.pop()
    match words:
        case ["%fiber"]:
            known: Iterable[str] = [*VERBS, "--help"]
        case ["%fiber", verb, *rest] if verb in VERBS:
            known = _words_after(VERBS[verb], rest, last)
        case ["%%parallel", *rest]:
            known = _words_after(CELL, rest, last)
        case ["%parallel", *_]:
            known = EXPRESSION.options if last.startswith("-") else []
        case _:
            known = []
    return sorted(word for word in known if word.startswith(last))


def _words_after(command: Command, before: list[str], last: str) -> list[str]:
    argument = _option_named(command, before[-1]) if before else None
    if argument is not None and argument.choices is not None:
        return list(argument.choices)
    return command.options if last.startswith("-") or not last else []


def _option_named(command: Command, word: str) -> Argument | None:
    return next((argument for argument in command.arguments if word in argument.names), None)


@context_matcher(identifier="fibernb")  # type: ignore[untyped-decorator]
def magic_matcher(context: CompletionContext) -> SimpleMatcherResult:
    """IPython's matcher for the lines of our magics."""
    words = candidates(context.text_until_cursor.lstrip())
    typed = context.text_until_cursor.rpartition(" ")[2]
    return {
        "completions": [SimpleCompletion(word, type="param") for word in words],
        "suppress": bool(words),
        "matched_fragment": typed,
    }
