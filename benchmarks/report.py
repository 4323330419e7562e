"""What was measured, what was asked for, and both as Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from fibernb.version import VERSION


@dataclass(frozen=True, kw_only=True)
class Check:
    """One figure that FiberNB is held to."""

    what: str
    figure: float
    unit: str  # "times" is a ratio
    bound: float
    sense: Literal["at least", "at most"]

    @property
    def passed(self) -> bool:
        return self.figure >= self.bound if self.sense == "at least" else self.figure <= self.bound


@dataclass(frozen=True, kw_only=True)
class Table:
    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    in_readme: bool = False


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{round(value, 3):.3g}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def check_table(checks: Sequence[Check]) -> str:
    rows = [
        (
            check.what,
            f"{number(check.figure)} {check.unit}",
            f"{check.sense} {number(check.bound)} {check.unit}",
            "met" if check.passed else "**missed**",
        )
        for check in checks
    ]
    return markdown_table(("figure", "measured", "wanted", ""), rows)


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def machine() -> str:
    """The facts without which no figure means anything."""
    load = os.getloadavg()[0]
    return (
        f"FiberNB {VERSION}, {datetime.now(UTC):%Y-%m-%d}. {os.cpu_count()} cores ({processor()}), "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}; "
        f"load average {load:.1f} when the run began."
    )


METHOD = (
    "Times depend on the machine and on what else runs there; ratios are taken within one run, peers taking turns, "
    "and each figure is the median of its repetitions."
)


def document(command: str, facts: str, checks: Sequence[Check], tables: Sequence[Table]) -> str:
    """The whole of docs/benchmarks.md."""
    parts = [
        "# Benchmarks",
        f"Made by `{command}`; do not edit by hand.",
        facts,
        METHOD,
        "## What FiberNB is held to",
        check_table(checks),
    ]
    for table in tables:
        parts += [f"## {table.title}", table.note, markdown_table(table.head, table.rows)]
    return "\n\n".join(parts) + "\n"


BLOCK_BEGIN = "<!-- benchmarks: written by make bench -->"
BLOCK_END = "<!-- end of benchmarks -->"


def with_block(readme: str, tables: Sequence[Table]) -> str:
    """The README with the tables that belong there between its two markers."""
    before, rest = readme.split(BLOCK_BEGIN)
    _, after = rest.split(BLOCK_END)
    parts = [f"{table.title}:\n\n{markdown_table(table.head, table.rows)}" for table in tables if table.in_readme]
    return "\n\n".join([before + BLOCK_BEGIN, *parts, BLOCK_END + after])
