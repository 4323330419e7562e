"""Lines that ask what a magic does: ``%fiber scale?``, ``%%parallel?``, and ``%%parallel --help`` without a body.

IPython itself understands ``%fiber?`` only, and shows where a function comes from rather than what it takes. It refuses
to run a ``%%`` line that has no body, and runs the body by itself, in the notebook, below one with a question mark.
"""

from __future__ import annotations

import re
import tokenize
from typing import Final

from IPython.core.inputtransformer2 import TokenTransformBase

_CELL: Final = re.compile(r"%%parallel\b[^#]*\?\s*")
_CELL_ALONE: Final = re.compile(r"%%parallel(?: .*)? (?:--help|-h) *")
_LINE: Final = re.compile(r"(?P<before>\?{0,2})%{1,2}(?P<magic>fiber|parallel)\b(?P<rest>[^?#]*)(?P<after>\?{0,2})")


def without_body(lines: list[str]) -> list[str]:
    """An input transformer: a cell that is a ``%%parallel`` line which asks for help."""
    if lines and (_CELL.fullmatch(lines[0]) or _CELL_ALONE.fullmatch("".join(lines).strip())):
        return ["%parallel --help\n"]
    return lines


class Question(TokenTransformBase):
    """A token transformer: a line with a question mark before or behind a magic of ours prints its help."""

    priority = 4  # comes before IPython's own question marks, whose priority is 5

    def __init__(self, start: tuple[int, int], call: str) -> None:
        super().__init__(start)  # type: ignore[no-untyped-call]
        self._call = call

    @classmethod
    def find(cls, tokens_by_line: list[list[tokenize.TokenInfo]]) -> Question | None:
        """The first line of a cell that asks."""
        for line in tokens_by_line:
            words = [token for token in line if token.type not in (tokenize.INDENT, tokenize.DEDENT)]
            asked = _asked(words[0].line) if words and words[0].string in ("%", "%%", "?", "??") else None
            if asked is not None:
                return cls(words[0].start, asked)
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """The cell with a call in place of the question."""
        indent = lines[self.start_line][: self.start_col]
        return [*lines[: self.start_line], f"{indent}{self._call}\n", *lines[self.start_line + 1 :]]


def _asked(line: str) -> str | None:
    """The call that answers a line; None if it asks nothing, or asks about an expression of the user's."""
    found = _LINE.fullmatch(line.strip())
    if found is None or not (found["before"] or found["after"]):
        return None
    words = found["rest"].split()
    if found["magic"] == "fiber":
        return _call("fiber", " ".join([*words[:1], "--help"]))
    return _call("parallel", "--help") if not words or words[0].startswith("-") else None


def _call(magic: str, line: str) -> str:
    return f"get_ipython().run_line_magic({magic!r}, {line!r})"
