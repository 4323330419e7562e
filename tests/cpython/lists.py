"""What has to pass, by version of Python, and what is left out, with its reason."""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "multiprocessing.md"
PASSES: Final = Path(__file__).with_name("passes")
VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


class Exclusion(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the page: tests that are left out, and why."""

    pattern: str  # of Class.test, as in the shell
    reason: str


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """A part of CPython's tests."""

    name: str
    title: str
    module: str
    heading: str  # of its table in the page

    def exclusions(self) -> list[Exclusion]:
        """The rows of its table."""
        _, found, rest = PAGE.read_text().partition(f"\n### {self.heading}\n")
        if not found:
            raise ValueError(f"{PAGE} has no section {self.heading!r}")
        section = re.split(r"\n#+ ", rest)[0]
        rows = re.findall(r"^\| (`.+?`(?:, `.+?`)*) \| (.+?) \|$", section, re.MULTILINE)
        return [
            Exclusion(pattern=pattern, reason=reason)
            for patterns, reason in rows
            for pattern in re.findall(r"`(.+?)`", patterns)
        ]

    def reason(self, test: str) -> str | None:
        """Why a test is left out; None: it is not."""
        return next((row.reason for row in self.exclusions() if fnmatch.fnmatchcase(test, row.pattern)), None)


SUITES: Final = {
    suite.name: suite
    for suite in (
        Suite(
            name="multiprocessing",
            title="tests of multiprocessing",
            module="tests.cpython.multiprocessing_cases",
            heading="Left out of CPython's tests of multiprocessing",
        ),
        Suite(
            name="futures",
            title="tests of concurrent.futures",
            module="tests.cpython.futures_cases",
            heading="Left out of CPython's tests of concurrent.futures",
        ),
    )
}


def file_of(suite: Suite, version: str = VERSION) -> Path:
    return PASSES / f"{suite.name}-{version}.txt"


def passes(suite: Suite, version: str = VERSION) -> set[str]:
    """The tests of a suite that have to pass; none where the version has no list."""
    file = file_of(suite, version)
    return set(file.read_text().split()) if file.exists() else set()


def record(suite: Suite, passed: Iterable[str], only: str = "*") -> None:
    """Write the list anew, as far as the pattern goes."""
    kept = {test for test in passes(suite) if not fnmatch.fnmatchcase(test, only)}
    file_of(suite).write_text("".join(f"{test}\n" for test in sorted(kept | set(passed))))
