"""docs/fiber.md tells the truth: what works is shown by a test that exists, and no name of Fiber is missing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec
import pytest

import fibernb.multiprocessing.fiber as fiber
from fibernb.multiprocessing.fiber.config import FiberConfig

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "fiber.md"
TESTS = ROOT / "tests" / "multiprocessing"
VERDICTS = ("works", "differs", "left out")


def rows() -> list[tuple[str, str, str]]:
    """What Fiber has, the verdict, and the rest of each row of the page's tables."""
    lines = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    return [line for line in lines if line[1] != "here" and not line[1].startswith("-")]


def names_of_tests(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}


def shown_in(row: tuple[str, str, str]) -> list[tuple[str, str]]:
    return re.findall(r"`([\w/]+\.py)::(test_\w+)`", row[2])


def test_the_page_has_rows() -> None:
    assert len(rows()) > 60
    assert {verdict for _, verdict, _ in rows()} == set(VERDICTS)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_test_that_is_named_exists(row: tuple[str, str, str]) -> None:
    for file, name in shown_in(row):
        assert name in names_of_tests(TESTS / file)


@pytest.mark.parametrize("row", [row for row in rows() if row[1] == "works"], ids=lambda row: row[0])
def test_what_works_is_shown(row: tuple[str, str, str]) -> None:
    assert shown_in(row), "no test is named"


@pytest.mark.parametrize("row", [row for row in rows() if row[1] != "works"], ids=lambda row: row[0])
def test_what_does_not_says_how_or_why(row: tuple[str, str, str]) -> None:
    assert len(row[2].split()) >= 3


@pytest.mark.parametrize("key", [field.name for field in msgspec.structs.fields(FiberConfig)])
def test_every_key_of_the_configuration_is_told(key: str) -> None:
    assert any(f"`{key}`" in row[0] for row in rows())


@pytest.mark.parametrize("name", [name for name in fiber.__all__ if name not in ("RingNode", "config", "managers")])
def test_every_name_of_the_module_is_told(name: str) -> None:
    assert any(re.search(rf"\b{name}\b", row[0]) for row in rows())
