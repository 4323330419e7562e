"""Magics that explain themselves."""

from __future__ import annotations

import pytest

from fibernb.notebook.asking import without_body
from fibernb.notebook.commands import FIBER_HELP, PARALLEL_HELP, VERBS
from fibernb.notebook.usage import UsageError
from tests.notebook.conftest import Notebook
from tests.notebook.fake_cluster import FakeCluster, FakeClusters


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "form",
    ["%fiber {}?", "%fiber {}??", "%fiber {} ?", "?%fiber {}", "??%fiber {}", "%fiber {} --help", "%fiber {} -h"],
)
def test_every_verb(notebook: Notebook, verb: str, form: str) -> None:
    assert notebook.run(form.format(verb)) is None
    assert notebook.out == VERBS[verb].help_text() + "\n"
    assert f"  %fiber {verb}" in notebook.out or verb == "status"


def test_help_by_its_name(notebook: Notebook) -> None:
    notebook.run("%fiber help scale")
    assert notebook.out == VERBS["scale"].help_text() + "\n"
    with pytest.raises(UsageError, match="did you mean 'scale'"):
        notebook.run("%fiber help scael")


@pytest.mark.parametrize("source", ["%fiber?", "?%fiber", "%%fiber?", "%fiber --help", "%fiber -h", "%fiber help"])
def test_all_verbs(notebook: Notebook, source: str) -> None:
    notebook.run(source)
    assert notebook.out == FIBER_HELP + "\n"


@pytest.mark.parametrize(
    "source",
    [
        "%%parallel?",
        "%%parallel??",
        "?%%parallel",
        "%parallel?",
        "%parallel --into?",
        "%parallel --help",
        "%%parallel --help",
        "%%parallel -w 0 -h\n\n",
        "%%parallel -w 0?",
        "%%parallel?\nundefined",
    ],
)
def test_cells(notebook: Notebook, clusters: FakeClusters, source: str) -> None:
    notebook.run(source)
    assert notebook.out == PARALLEL_HELP + "\n"
    assert not clusters.in_use()


def test_a_question_among_other_lines(notebook: Notebook) -> None:
    notebook.run("x = 1\nif x:\n    %fiber stop?\n    x = 2\nx")
    assert notebook.out.startswith(VERBS["stop"].help_text())
    assert notebook.shell.user_ns["x"] == 2


def test_questions_about_verbs_that_there_are_not(notebook: Notebook) -> None:
    with pytest.raises(UsageError, match="did you mean 'scale'"):
        notebook.run("%fiber scael?")


def test_what_asks_nothing_of_ours(notebook: Notebook, clusters: FakeClusters) -> None:
    clusters.cluster = FakeCluster(2)
    assert notebook.run("'''\n%fiber stop?\n'''") == "\n%fiber stop?\n"
    assert notebook.run("%parallel '?'") == ["?"] * 2
    assert notebook.run("%%parallel -w 0  # really?\nrank") == [0]
    assert notebook.run("%fiber config  # is it set?") is not None
    assert notebook.run("%%parallel\n'--help'") == ["--help"] * 2
    notebook.run("len?")
    assert "number of items" in notebook.out
    assert without_body([]) == []


@pytest.mark.parametrize("magic", ["fiber", "parallel"])
def test_what_a_front_end_shows_of_a_magic_under_the_cursor(notebook: Notebook, magic: str) -> None:
    found = notebook.shell.object_inspect_mime(f"%{magic}")
    assert "examples:" in found["text/plain"] or "%fiber VERB?" in found["text/plain"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--hlep", "did you mean '--help'"),
        ("-w 0 rank", "-w belongs to a %%parallel cell"),
        ("--into x rank", "--into belongs to a %%parallel cell"),
    ],
)
def test_options_of_an_expression(notebook: Notebook, clusters: FakeClusters, line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        notebook.run(f"%parallel {line}")
    assert not clusters.in_use()


def test_an_expression_may_begin_with_a_minus(notebook: Notebook, clusters: FakeClusters) -> None:
    clusters.cluster = FakeCluster(2)
    assert notebook.run("%parallel -rank") == [0, -1]
    assert notebook.run("%parallel - rank - 1") == [-1, -2]
