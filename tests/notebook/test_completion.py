"""Completing the lines of the magics."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter

from fibernb import config
from fibernb.notebook.commands import CELL, VERBS
from fibernb.notebook.completion import MAX_RANKS, candidates
from tests.notebook.conftest import Notebook
from tests.notebook.fake_cluster import FakeCluster, FakeClusters


class Words:
    """What a notebook with four engines knows."""

    def __init__(self, size: int = 4) -> None:
        self._size = size

    def size(self) -> int:
        return self._size

    def clusters(self) -> list[str]:
        return ["blue", "local-1"]

    def names(self) -> list[str]:
        return ["data", "index", "xs"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%fiber sca", ["scale", "scatter"]),
        ("%fiber --", ["--help"]),
        ("%fiber help sta", ["start", "status"]),
        ("%fiber scale --", ["--help", "--min", "--timeout"]),
        ("%fiber scale ", ["8", "+1", "-1", "0", "--help", "--min", "--timeout"]),
        ("%fiber scale +", ["+1"]),
        ("%fiber scale 8 --min ", []),
        ("%fiber scale 8 9 ", ["--help", "--min", "--timeout"]),
        ("%fiber autoscale ", ["off", "0:4", "--help", "--idle"]),
        ("%fiber stop ", ["--help"]),
        ("%fiber nothing ", []),
        ("%fiber start -b ", ["local"]),
        ("%fiber start -n 4 --na", ["--name"]),
        ("%fiber start -o lease", ["lease_s="]),
        ("%fiber start -o lease_s=6 spill_d", ["spill_dir="]),
        ("%fiber start -o lease_s=", []),
        ("%fiber config prog", ["progress="]),
        ("%fiber config progress=", ["progress=false", "progress=true"]),
        ("%fiber config progress=false inl", ["inline_bytes="]),
        ("%fiber config nothing=", []),
        ("%fiber attach ", ["blue", "local-1", "--help"]),
        ("%fiber attach b", ["blue"]),
        ("%fiber push d", ["data"]),
        ("%fiber push data xs i", ["index"]),
        ("%fiber push data -w 1", ["1"]),
        ("%fiber push data -w 1 ", ["data", "index", "xs", "--help", "--ranks", "-w"]),
        ("%fiber pull x --into i", ["index"]),
        ("%fiber scatter x", ["xs"]),
        ("%fiber scatter xs ", ["0", "1", "2", "3", "!0", "::2", "0:2", "--help"]),
        ("%fiber gather xs 3", ["3"]),
        ("%fiber restart ", ["0", "1", "2", "3", "!0", "::2", "0:2", "--help"]),
        ("%fiber restart 0,", ["0,0", "0,1", "0,2", "0,3"]),
        ("%fiber interrupt !", ["!0", "!1", "!2", "!3"]),
        ("%fiber ps 2:", ["2:0", "2:1", "2:2", "2:3", "2:4"]),
        ("%fiber ps a", []),
        ("%fiber log 1 2", ["2"]),
        ("%fiber timeline ", []),
        ("%fiber timeline --", ["--help", "--last"]),
        ("%%parallel --in", ["--into"]),
        ("%%parallel --into d", ["data"]),
        ("%%parallel --output ", ["auto", "first", "none", "rank"]),
        ("%%parallel --output r", ["rank"]),
        ("%%parallel --output=r", ["--output=rank"]),
        ("%%parallel --on-error ", ["keep", "raise"]),
        ("%%parallel --push data x", ["xs"]),
        ("%%parallel --push data,i", ["data,index"]),
        ("%%parallel -w !0 --no", ["--no-push"]),
        ("%%parallel -w 0 --each x", []),
        ("%parallel -", ["--help"]),
        ("%parallel ra", ["rank", "ranks"]),
        ("%parallel len(da", ["len(data"]),
        ("%parallel rank * x", ["xs"]),
        ("%parallel data.i", []),
        ("%parallel 'a'", []),
        ("fiber sca", []),
        ("x = 1", []),
        ("", []),
    ],
)
def test_candidates(line: str, words: list[str]) -> None:
    assert candidates(line, Words()) == words


def test_ranks_of_no_cluster_and_of_a_large_one() -> None:
    assert candidates("%fiber restart ", Words(0)) == ["--help"]
    assert candidates("%fiber scale ", Words(0))[0] == "4"
    assert candidates("%fiber restart ", Words(1)) == ["0", "--help"]
    assert candidates("%fiber restart ", Words(1024))[MAX_RANKS - 1 : MAX_RANKS + 2] == ["63", "!0", "::2"]
    assert candidates("%fiber restart 102", Words(1024)) == ["102", "1020", "1021", "1022", "1023"]


@pytest.mark.parametrize("command", [*VERBS.values(), CELL], ids=lambda command: command.name)
def test_every_option_is_offered_once(command: Any) -> None:
    assert candidates(f"{command.name} -", Words()) == sorted(command.options)


def test_every_setting_is_offered() -> None:
    keys = {key for key in config.KEYS if key != "locked"}
    assert {word.rstrip("=") for word in candidates("%fiber config ", Words())} == keys | {"--help"}


def completed(notebook: Notebook, line: str) -> list[str]:
    with provisionalcompleter():
        return [found.text for found in notebook.shell.Completer.completions(line, len(line))]


def test_in_a_notebook(notebook: Notebook, clusters: FakeClusters) -> None:
    assert completed(notebook, "%fiber autos") == ["autoscale"]
    assert completed(notebook, "%fiber restart ") == ["--help"]
    clusters.cluster = FakeCluster(2)
    assert completed(notebook, "%fiber restart ")[:2] == ["0", "1"]
    assert completed(notebook, "%fiber attach f") == ["fake"]


def test_names_of_the_notebook_and_of_its_engines(notebook: Notebook, clusters: FakeClusters) -> None:
    clusters.cluster = FakeCluster(2)
    notebook.shell.run_cell("mine_too = 1\ndef mine(): pass", store_history=True)
    notebook.shell.run_cell("%%parallel -w 0\nfrom math import pi as mine_there\n!true", store_history=True)
    notebook.shell.run_cell("%%parallel\nfor", store_history=True)
    assert completed(notebook, "%fiber pull mi") == ["mine", "mine_there", "mine_too"]
    assert completed(notebook, "%parallel mine_th") == ["mine_there"]
    assert "In" not in completed(notebook, "%fiber push ")
