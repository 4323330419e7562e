"""What a ``%%parallel`` line asks for, checked as a whole. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from fibernb.notebook.arguments import split_each, split_names, split_words, take_each
from fibernb.notebook.commands import CELL
from fibernb.notebook.grouping import Mode
from fibernb.notebook.usage import UsageError

DEFAULT_RETRIES = 3


@dataclass(frozen=True, kw_only=True)
class Each:
    """``--each``: the name, the expression that gives its items, and what happens when items fail.

    ``name`` may be several, with commas between them, for the parts of each item.
    """

    name: str
    expression: str
    retries: int
    keep_errors: bool

    @property
    def names(self) -> list[str]:
        """One by one."""
        return self.name.split(",")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of a cell. ``background``: the name for the handle, empty for none; None when the cell blocks."""

    ranks: str | None = None
    into: str | None = None
    background: str | None = None
    push: tuple[str, ...] = ()
    pushes: bool = True
    output: Mode = "auto"
    timeout_s: float | None = None
    each: Each | None = None


def parse(line: str) -> Request:
    """Read the line. Raises UsageError for what cannot be understood, `HelpAsked` for ``--help``."""
    rest, pair = take_each(line)
    options = CELL.parse(split_words(rest, CELL.name))
    if options.each is not None:
        pair = split_each(options.each)
    if pair is None and (options.retries is not None or options.on_error is not None):
        raise UsageError("%%parallel: --retries and --on-error belong to --each, and there is none")
    if pair is not None and options.ranks is not None:
        raise UsageError("%%parallel: --each runs wherever there is room, so -w cannot say where")
    if options.push and options.no_push:
        raise UsageError("%%parallel: --push and --no-push contradict each other")
    return Request(
        ranks=options.ranks,
        into=options.into,
        background=getattr(options, "async"),
        push=tuple(split_names(options.push or ())),
        pushes=not options.no_push,
        output=options.output,
        timeout_s=options.timeout,
        each=None if pair is None else _each(*pair, options.retries, options.on_error),
    )


def _each(name: str, expression: str, retries: int | None, on_error: str | None) -> Each:
    return Each(
        name=name,
        expression=expression,
        retries=DEFAULT_RETRIES if retries is None else retries,
        keep_errors=on_error == "keep",
    )
