"""docs/ray.md tells the truth: what works is shown by a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "ray.md"
VERDICTS = ("works", "differs", "left out")


def rows() -> list[tuple[str, str, str]]:
    """What Ray has, the verdict, and the rest of each row of the page's tables."""
    lines = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    return [line for line in lines if line[1] != "here" and not line[1].startswith("-")]


def names_of_tests(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_the_page_has_rows() -> None:
    assert len(rows()) > 80
    assert {verdict for _, verdict, _ in rows()} == set(VERDICTS)


@pytest.mark.parametrize("row", [row for row in rows() if row[1] == "works"], ids=lambda row: row[0])
def test_what_works_is_shown(row: tuple[str, str, str]) -> None:
    shown = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row[2])
    assert shown, "no test is named"
    for file, name in shown:
        assert name in names_of_tests(ROOT / "tests" / "ray" / file)


@pytest.mark.parametrize("row", [row for row in rows() if row[1] != "works"], ids=lambda row: row[0])
def test_what_does_not_says_how_or_why(row: tuple[str, str, str]) -> None:
    assert len(row[2].split()) >= 3
