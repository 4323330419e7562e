"""Which files of a directory do not belong to its package: the patterns of ``.gitignore``.

A pattern without a slash matches a name at any depth; one with a slash a path from where the pattern stands. ``**``
stands for any number of directories, a slash at the end for directories only, ``!`` at the beginning takes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

ALWAYS: Final = (".git/", "__pycache__/", ".venv/", ".ipynb_checkpoints/")


class Rule(NamedTuple):
    base: Path  # the directory that the pattern is relative to
    pattern: re.Pattern[str]
    takes_back: bool
    directories_only: bool


class Ignored:
    """Patterns in the order of their weight: the last one that matches decides."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._rules: list[Rule] = [rule for text in ALWAYS for rule in _parsed(text, Path())]
        self._given = [rule for text in patterns for rule in _parsed(text, Path())]

    def read(self, file: Path, base: Path) -> None:
        """Add the patterns of a file, if there is one, for what stands below ``base``."""
        if not file.is_file():
            return
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        self._rules += [rule for line in lines for rule in _parsed(line, base)]

    def matches(self, path: Path, is_directory: bool) -> bool:
        """Whether a path, relative to the package, is ignored."""
        for rule in (*reversed(self._given), *reversed(self._rules)):
            if _applies(rule, path, is_directory):
                return not rule.takes_back
        return False


def _applies(rule: Rule, path: Path, is_directory: bool) -> bool:
    if rule.directories_only and not is_directory:
        return False
    if not path.is_relative_to(rule.base):
        return False
    return rule.pattern.fullmatch(path.relative_to(rule.base).as_posix()) is not None


def _parsed(line: str, base: Path) -> list[Rule]:
    text = line.strip()
    if not text or text.startswith("#"):
        return []
    takes_back = text.startswith("!")
    text = text.removeprefix("!").removeprefix("\\")
    directories_only = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    return [Rule(base, _expression(text.removeprefix("/"), anchored), takes_back, directories_only)]


@lru_cache(256)
def _expression(text: str, anchored: bool) -> re.Pattern[str]:
    parts = text.split("/") if anchored else ["**", text]
    written = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            written += ".*" if last else "(?:[^/]+/)*"
        else:
            written += _part(part) + ("" if last else "/")
    return re.compile(written)


def _part(text: str) -> str:
    """One name of a pattern as a regular expression."""
    written, position = "", 0
    while position < len(text):
        character = text[position]
        end = text.find("]", position + 2) if character == "[" else -1
        if end > 0:
            inside = text[position + 1 : end].replace("\\", "\\\\")
            written += "[^" + inside[1:] + "]" if inside[0] in "!^" else f"[{inside}]"
            position = end
        else:
            written += {"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character))
        position += 1
    return written
