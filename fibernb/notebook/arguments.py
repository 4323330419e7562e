"""Reading the line of a magic: options as tables, errors as one line that says what to do. Pure."""

from __future__ import annotations

import argparse
import ast
import contextlib
import itertools
import keyword
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, TypeAlias

from fibernb.notebook.usage import UsageError, did_you_mean

_COMMENT: Final = re.compile(r"(?:^|\s)#")
_OPTION_FOLLOWS: Final = re.compile(r"\s*$|\s+--?[A-Za-z]")
_RANKS: Final = re.compile(r"[\d,:!]+")
_NAMES: Final = r"(?P<name>[^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)*)"
_EACH: Final = re.compile(rf"(?:^|(?<=\s))--each(?:\s+|=){_NAMES}\s*(?P<sign>=|in\s)(?P<rest>.*)", re.DOTALL)


Completes: TypeAlias = Literal["", "backends", "bounds", "clusters", "files", "names", "ranks", "seats", "settings"]
"""What kind of thing an argument is, for completion; an empty text: of none that could be known."""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One option (names start with ``-``) or positional argument."""

    names: tuple[str, ...]
    help: str
    kind: Callable[[str], object] = str
    nargs: str | None = None
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    flag: bool = False  # takes no value
    default: object = None
    const: object = None  # what an option with nargs "?" means without a value
    completes: Completes = ""

    @property
    def is_option(self) -> bool:
        """Whether it has a name, rather than a place."""
        return self.names[0].startswith("-")

    @property
    def takes_many(self) -> bool:
        """Whether any number of words can follow."""
        return self.nargs in ("+", "*")

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        if self.flag:
            parser.add_argument(*self.names, help=self.help, action="store_true")
            return
        extra: dict[str, Any] = {} if self.nargs is None else {"nargs": self.nargs}
        if self.const is not None:
            extra["const"] = self.const
        if self.is_option and self.takes_many:
            extra["action"] = "extend"  # given twice, it has the words of both
        parser.add_argument(
            *self.names,
            help=self.help,
            type=self.kind,
            metavar=self.metavar,
            choices=self.choices,
            default=self.default,
            **extra,
        )


@dataclass(frozen=True, kw_only=True)
class Command:
    """A magic or a verb of one: what it is called, what it takes, and how that looks in use."""

    name: str  # as the user types it: "%fiber scale"
    help: str
    arguments: tuple[Argument, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def options(self) -> list[str]:
        """All names of options, ``--help`` included."""
        return [name for argument in self.arguments if argument.is_option for name in argument.names] + ["--help"]

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The arguments by name. Raises `HelpAsked` for ``--help`` and UsageError for what cannot be understood."""
        if "--help" in words or "-h" in words:
            raise HelpAsked(self.help_text())
        return self._parser().parse_args(list(words))

    def help_text(self) -> str:
        """The whole help, examples last."""
        return self._parser().format_help().rstrip()

    def _parser(self) -> argparse.ArgumentParser:
        parser = _Parser(self)
        for argument in self.arguments:
            argument.add_to(parser)
        return parser


class HelpAsked(Exception):
    """Not an error: the user wants to read this instead."""


class _Parser(argparse.ArgumentParser):
    def __init__(self, command: Command) -> None:
        super().__init__(
            prog=command.name,
            description=command.help,
            epilog="\n".join(["examples:", *(f"  {example}" for example in command.examples)]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
            allow_abbrev=False,
        )
        self._command = command

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"unrecognized arguments: (\S+)", message)
        if unknown:
            hint = did_you_mean(unknown[1], self._command.options)
            if "-w" in self._command.options and _RANKS.fullmatch(unknown[1]):
                hint = ": ranks are written without blanks, such as -w 0,2"
            message = f"{unknown[1]!r} is not understood{hint}"
        raise UsageError(f"{self.prog}: {message}" + ("" if message.endswith("?") else f" (see {self.prog} --help)"))


def split_words(line: str, command: str) -> list[str]:
    """The words of a line up to a comment, with the quotes of a shell."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        before = _COMMENT.split(line, maxsplit=1)[0]
        if before == line:
            raise UsageError(f"{command}: {error} (quote words that contain quotes)") from error
        return split_words(before, command)
    return list(itertools.takewhile(lambda word: not word.startswith("#"), words))


def take_each(line: str) -> tuple[str, tuple[str, str] | None]:
    """Take ``--each NAME=EXPRESSION`` out of a line: what is left, and the name with its expression.

    The name may be several, for the parts of each item: they come back as ``a,b``. The expression may contain spaces:
    it ends where it is complete and an option, or nothing, follows.
    """
    found = _EACH.search(line)
    if found is None:
        return line, None
    names, rest = _names_of_parts(found["name"]), found["rest"]
    if found["sign"] != "=":
        raise UsageError(f"%%parallel: --each wants NAME=EXPRESSION: --each {names}={rest.strip()}")
    for end in _ends_of_words(rest):
        if _OPTION_FOLLOWS.match(rest, end) and is_expression(rest[:end]):
            return f"{line[: found.start()]} {rest[end:]}".strip(), (names, rest[:end].strip())
    raise UsageError(f"%%parallel: --each {names}=… is not followed by a complete Python expression: {rest}")


def split_each(word: str) -> tuple[str, str]:
    """The two sides of a quoted ``--each "x=EXPRESSION"``."""
    name, equals, expression = word.partition("=")
    if not (equals and all(is_name(part.strip()) for part in name.split(",")) and is_expression(expression)):
        raise UsageError(f"%%parallel: --each wants NAME=EXPRESSION, such as x=range(10), not {word!r}")
    return _names_of_parts(name), expression.strip()


def _names_of_parts(text: str) -> str:
    """Names with commas and nothing else between them."""
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if not is_name(name):
            raise UsageError(f"%%parallel: --each: {name!r} is not a Python name")
    return ",".join(names)


def split_names(words: Sequence[str]) -> list[str]:
    """Names separated by spaces or commas. Raises UsageError for one that is not a Python name."""
    names = [name for word in words for name in word.split(",") if name]
    for name in names:
        if not is_name(name):
            raise UsageError(f"{name!r} is not a Python name")
    return names


def seconds(text: str) -> float:
    """A positive number of seconds."""
    with contextlib.suppress(ValueError):
        value = float(text)
        if 0 < value < float("inf"):
            return value
    raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")


def count(text: str) -> int:
    """A whole number, 0 or more."""
    with contextlib.suppress(ValueError):
        value = int(text)
        if value >= 0:
            return value
    raise argparse.ArgumentTypeError(f"{text} is not a whole number, 0 or more")


def name(text: str) -> str:
    """A Python name."""
    if not is_name(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a Python name")
    return text


def name_or_nothing(text: str) -> str:
    """A Python name, or an empty text."""
    return name(text) if text else ""


def is_name(text: str) -> bool:
    """Whether Python code can use this as the name of a variable."""
    return text.isidentifier() and not keyword.iskeyword(text)


def is_expression(text: str) -> bool:
    """Whether this is a complete Python expression."""
    try:
        ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _ends_of_words(text: str) -> list[int]:
    return [found.end() for found in re.finditer(r"\S+", text)]
