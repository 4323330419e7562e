"""The guide names what there is, all of it and nothing else."""

import re
from pathlib import Path

import msgspec
import pytest

from fibernb import errors
from fibernb.cli.main import VERBS as COMMANDS
from fibernb.config import Config
from fibernb.notebook.commands import CELL, VERBS

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


def code_in_first_columns(document: str) -> str:
    """All code of the first columns of a page's tables, as one text."""
    cells = re.findall(r"^\| (.*?) \|", (GUIDE / document).read_text(), re.MULTILINE)
    return " ".join(code for cell in cells for code in re.findall(r"`(.+?)`", cell))


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "status"])
def test_every_verb_of_the_magic_is_told(verb: str) -> None:
    assert re.search(rf"\b{verb}\b", code_in_first_columns("magics.md"))


@pytest.mark.parametrize("option", [option for option in CELL.options if option.startswith("--")])
def test_every_option_of_a_parallel_cell_is_told(option: str) -> None:
    known_by_their_short_names = {"--ranks": "-w", "--async": "-a"}
    assert known_by_their_short_names.get(option, option) in (GUIDE / "magics.md").read_text()


def test_every_setting_is_told() -> None:
    told = set(re.findall(r"\w+", code_in_first_columns("clusters.md")))
    assert {field.name for field in msgspec.structs.fields(Config)} <= told


def test_every_command_is_told() -> None:
    text = (GUIDE / "clusters.md").read_text()
    assert [verb for verb in COMMANDS if not re.search(rf"`(?:fibernb )?{verb}\b", text)] == []


def test_every_error_is_told() -> None:
    told = set(re.findall(r"\w+", code_in_first_columns("errors.md")))
    raised = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.FibernbError) and not kind.__subclasses__()
    }
    assert raised <= told
