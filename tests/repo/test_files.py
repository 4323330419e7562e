"""What must hold for the files of this repository: commands that exist, notebooks that are clean, no private paths."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from notebooks.demo import SOLVED, mean_return, transcript

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PRIVATE_PATH = re.compile(r"/(?:home|Users|root|work)/[A-Za-z0-9_.-]+")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TEXT_SUFFIXES = {".cfg", ".ipynb", ".json", ".md", ".py", ".toml", ".ts", ".yml", ""}


def project_files() -> list[Path]:
    """Every file that git knows or would take; empty outside a checkout."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return [ROOT / line for line in listing.stdout.splitlines() if (ROOT / line).is_file()]


def cells(notebook: Path) -> Iterator[dict[str, Any]]:
    yield from json.loads(notebook.read_text())["cells"]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_readme_opens_with_the_two_commands() -> None:
    commands = re.findall(r"^    (make .+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert [command.split()[1] for command in commands[:2]] == ["demo", "test"]


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/benchmarks.md"])
def test_every_make_command_that_is_told_exists(document: str) -> None:
    told = set(re.findall(r"(?:^    |`)make ([a-z-]+)", (ROOT / document).read_text(), re.MULTILINE))
    assert told <= make_targets()


def test_every_relative_link_leads_somewhere() -> None:
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", FENCED.sub("", document.read_text()))
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert broken == []


def test_no_file_holds_a_path_of_someones_machine() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {match}"
        for file in project_files()
        if file.suffix in TEXT_SUFFIXES and file != Path(__file__)
        for match in PRIVATE_PATH.findall(file.read_text(errors="replace"))
    ]
    assert found == []


def test_there_are_notebooks() -> None:
    assert [notebook.name[:2] for notebook in NOTEBOOKS[:2]] == ["01", "02"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_was_run_from_top_to_bottom(notebook: Path) -> None:
    counts = [cell["execution_count"] for cell in cells(notebook) if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_holds_no_error_but_those_it_means_to_show(notebook: Path) -> None:
    for cell in cells(notebook):
        failed = any(output["output_type"] == "error" for output in cell.get("outputs", []))
        assert failed == ("raises-exception" in cell["metadata"].get("tags", [])), "".join(cell["source"])


def test_demo_finds_the_mean_return_of_the_trained_policy() -> None:
    text = transcript(nbformat.read(NOTEBOOKS[1], as_version=4))
    found = mean_return(text)
    assert found is not None
    assert found >= SOLVED
