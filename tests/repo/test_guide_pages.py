"""Everything that the guide shows was run, and came to what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fibernb.cli.main import VERBS as COMMANDS
from fibernb.notebook.commands import CELL, VERBS
from tests.notebook.kernel import Kernel, running_kernel
from tests.repo.guide_pages import KINDS, Cell, Output, blocks_of, cells_of, is_shown, run_cell, run_command

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "guide").glob("*.md"))
PICTURE = re.compile(r"\]\(\.\./images/([\w-]+)\.png\)")
ASKED_FOR = (
    *("README", "getting-started", "cells", "tasks", "progress", "errors"),
    *("scaling", "troubleshooting", "magics", "clusters"),
)


def variables_of(directory: Path) -> dict[str, str]:
    """What the environment of a page says besides: nothing moves, and all its files are in one directory."""
    places = {"FIBERNB_RUNTIME_DIR": "run", "JUPYTER_DATA_DIR": "data", "IPYTHONDIR": "ipython"}
    return {"FIBERNB_PROGRESS": "0", **{name: str(directory / place) for name, place in places.items()}}


def difference(cell: Cell, output: Output) -> str:
    """How a page and what happened differ; empty if they do not."""
    if cell.shown is None:
        is_right = not output.failed and not output.text
    else:
        is_right = is_shown(cell.shown, output.text)
    return "" if is_right else f"line {cell.line}: {cell.source}\n-- the page:\n{cell.shown}\n-- here:\n{output.text}"


def run_page(kernel: Kernel, page: Path, directory: Path) -> list[str]:
    """Run all that a page shows: where it differs."""
    differences = []
    for cell in cells_of(page):
        if cell.is_command:
            output = run_command(cell.source, directory, variables_of(directory))
        else:
            output = run_cell(kernel.client, cell)
        differences.append(difference(cell, output))
    return list(filter(None, differences))


@pytest.mark.parametrize("page", [page for page in PAGES if cells_of(page)], ids=lambda page: page.stem)
def test_what_a_page_shows_is_true(page: Path, tmp_path: Path) -> None:
    with running_kernel(tmp_path, **variables_of(tmp_path)) as kernel:
        kernel.run("%unload_ext fibernb")  # a page loads it itself
        found = run_page(kernel, page, tmp_path)
    assert not found, "\n\n".join(found)


def test_the_guide_has_what_a_new_user_needs() -> None:
    assert set(ASKED_FOR) <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_no_code_that_is_not_looked_at(page: Path) -> None:
    text = page.read_text()
    kinds = [block.kind for block in blocks_of(page)]
    assert text.count("```") == 2 * len(kinds)
    assert set(kinds) <= set(KINDS)
    assert all(
        before in ("python", "text") for before, kind in zip(["", *kinds], kinds, strict=False) if kind == "text"
    )
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert re.findall(r"^(?: {4}|\t)\S.*", outside, re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_synopsis_names_what_there_is(page: Path) -> None:
    for block in blocks_of(page):
        if block.kind == "usage" and block.text.startswith("%%parallel"):
            assert set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", block.text)) <= set(CELL.options)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_verbs_in_the_text_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    assert set(re.findall(r"`%fiber ([a-z]+)", text)) <= set(VERBS)
    assert set(re.findall(r"`fibernb ([a-z]+)", text)) <= set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_can_be_found(page: Path) -> None:
    assert page.stem == "README" or f"({page.name})" in (ROOT / "docs" / "guide" / "README.md").read_text()


def test_pictures_are_those_of_the_tests_in_jupyterlab() -> None:
    shown = {name for page in PAGES for name in PICTURE.findall(page.read_text())}
    copied = re.search(r"^PICTURES := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert copied
    assert shown
    assert shown <= {name.removesuffix(".png") for name in copied[1].split()}
    taken = "\n".join(test.read_text() for test in (ROOT / "tests" / "ui").glob("test_*.py"))
    names = {name.replace("theme-dark", "theme-{name}") for name in shown}
    assert [name for name in names if f'picture("{name}"' not in taken and f'picture(f"{name}"' not in taken] == []


@pytest.mark.parametrize(
    ("shown", "output"),
    [
        ("4 engines ready", "4 engines ready\n"),
        ("a\n…\nd", "a\nb\nc\nd"),
        ("ended …", "ended well"),
        ("after 0.3 s", "after 12 s"),
        ("cluster local-12ab", "cluster local-34cd"),
        ("0  idle  4711", "0     idle   15"),
        ("Cell In[3], line 2", "Cell In[14], line 2"),
    ],
)
def test_what_is_as_good_as_shown(shown: str, output: str) -> None:
    assert is_shown(shown, output)


@pytest.mark.parametrize(
    ("shown", "output"),
    [
        ("4 engines ready", "3 engines ready"),
        ("4 engines ready", ""),
        ("", "a word"),
        ("a", "a\nb"),
        ("a\n…\nd", "a\nb\nc"),
        ("[0] 1", "[0] 2"),
        ("Cell In[3], line 2", "Cell In[3], line 3"),
    ],
)
def test_what_is_not_shown(shown: str, output: str) -> None:
    assert not is_shown(shown, output)


def test_a_failure_that_is_not_shown_is_one() -> None:
    assert difference(Cell("1 / 0", 1), Output(failed=True))
    assert difference(Cell("1", 1), Output(["1\n"]))
    assert not difference(Cell("x = 1", 1), Output())
