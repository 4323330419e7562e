"""Tracebacks as notebooks show them: the user's frames with their lines, those of libraries folded. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pygments import highlight
from pygments.formatters.terminal import TerminalFormatter
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Number, String, Token

_FRAME: Final = re.compile(r'(?P<indent> *)File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?')
_FILE: Final = re.compile(r'^(\W*)File "([^"\n]+)"', re.MULTILINE)
_LIBRARY: Final = re.compile(r"(?:^<frozen |.*/(?:site-packages|dist-packages|lib/python3\.\d+)/)(?P<short>.*)")
_REMOTE_CELL: Final = re.compile(r"In\[\d*\]")
_MARKS: Final = re.compile(r"\s*[~^]+[\s~^]*")

_HEAD: Final = "\x1b[32m"
_MARK: Final = "\x1b[31m"
_PLAIN: Final = "\x1b[0m"

_LEXER: Final = PythonLexer(stripnl=False, ensurenl=False)
_FORMATTER: Final = TerminalFormatter(  # colours that are to be seen on light and on dark ground
    colorscheme={
        Token: ("", ""),
        Keyword: ("blue", "blue"),
        String: ("green", "green"),
        Number: ("cyan", "cyan"),
        Comment: ("brightblack", "brightblack"),
    }
)

NameOfFile: TypeAlias = Callable[[str], str]
"""``File "x.py"``, or ``Cell In[3]`` for the file that IPython makes of a cell."""


@dataclass
class _Frame:
    indent: str
    file: str
    head: str
    function: str
    lines: list[str] = field(default_factory=list)

    @property
    def library(self) -> re.Match[str] | None:
        return _LIBRARY.fullmatch(self.file)


def shown(text: str, name_of_file: NameOfFile, *, folds: bool = True) -> str:
    """A traceback that Python has formatted. ``folds``: frames of libraries take one line, if there are others."""
    parts = list(_parts(text))
    frames = [part for part in parts if isinstance(part, _Frame)]
    folds = folds and any(frame.library is None for frame in frames)
    lines: list[str] = []
    folded: list[_Frame] = []
    for part in parts:
        if folds and isinstance(part, _Frame) and part.library is not None:
            folded.append(part)
            continue
        lines += _summary(folded)
        folded = []
        lines += [_named(part, name_of_file)] if isinstance(part, str) else _unfolded(part, name_of_file)
    return "\n".join([*lines, *_summary(folded)])


def _parts(text: str) -> Iterator[str | _Frame]:
    """Frames with their lines, and the lines between them."""
    frame: _Frame | None = None
    for line in text.splitlines():
        found = _FRAME.fullmatch(line)
        if found is None and frame is not None and line.startswith(f"{frame.indent}  "):
            frame.lines.append(line)
            continue
        if frame is not None:
            yield frame
        frame = None
        if found is None:
            yield line
        else:
            function = found["function"] or ""
            where = f", in {function}" if function not in ("", "<module>") else ""
            frame = _Frame(found["indent"], found["file"], f", line {found['line']}{where}", function)
    if frame is not None:
        yield frame


def _unfolded(frame: _Frame, name_of_file: NameOfFile) -> Iterator[str]:
    name = _name(frame.file, name_of_file)
    yield f"{frame.indent}{_HEAD}{name}{frame.head}{_PLAIN}"
    for line in frame.lines:
        yield f"{_MARK}{line}{_PLAIN}" if _MARKS.fullmatch(line) else highlight(line, _LEXER, _FORMATTER)


def _summary(folded: Iterable[_Frame]) -> list[str]:
    frames = list(folded)
    if not frames:
        return []
    last = frames[-1]
    short = last.library["short"] if last.library is not None else last.file
    count = "" if len(frames) == 1 else f" (the last of {len(frames)} frames of libraries)"
    return [f"{last.indent}… {short.removesuffix('>')}{last.head}{count}"]


def _named(line: str, name_of_file: NameOfFile) -> str:
    """A line of another kind, in which a cell is said to be one."""
    return _FILE.sub(lambda found: found[1] + _name(found[2], name_of_file), line)


def _name(file: str, name_of_file: NameOfFile) -> str:
    return f"Cell {file}" if _REMOTE_CELL.fullmatch(file) else name_of_file(file)
