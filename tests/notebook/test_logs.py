"""The logs of engines, as ``%fiber log`` shows them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fibernb.config import Config
from fibernb.errors import ConfigError
from fibernb.notebook.clusters import Clusters
from fibernb.notebook.logs import CHUNK_BYTES, MAX_NEW_BYTES, LogVerb, Tail, Window, last_lines

SIZE = 3


class LoggingCluster:
    """A directory with logs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.size = SIZE
        (directory / "logs").mkdir()

    def parse_ranks(self, text: str) -> list[int]:
        if not text.isdigit() or int(text) >= SIZE:
            raise ConfigError(f"no rank {text}")
        return [int(text)]

    def log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"


@pytest.fixture
def cluster(tmp_path: Path) -> LoggingCluster:
    return LoggingCluster(tmp_path)


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def options(*ranks: str, lines: int | None = None, follow: bool = False) -> argparse.Namespace:
    return argparse.Namespace(ranks=list(ranks), lines=lines, follow=follow)


def verb(cluster: LoggingCluster, *steps: Callable[[], object]) -> LogVerb:
    """The verb; while it follows, one step is taken after each look, and then the user interrupts."""
    left = iter(steps)

    def sleep(_: float) -> None:
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    return LogVerb(cast(Clusters, SimpleNamespace(existing=lambda: cluster)), sleep)


def test_the_last_lines_of_each(cluster: LoggingCluster, capsys: pytest.CaptureFixture[str]) -> None:
    add(cluster.log("rank-0"), "a\nb\nc\n")
    add(cluster.log("rank-2"), "x\n")
    add(cluster.log("rank-2.native"), "from a library\n")
    add(cluster.log("extra-1"), "beside\n")
    verb(cluster).run(options(lines=2))
    assert capsys.readouterr().out == "[0] b\n[0] c\n[2] x\n[2 native] from a library\n"
    verb(cluster).run(options("2"))
    assert capsys.readouterr().out == "[2] x\n[2 native] from a library\n"
    verb(cluster).run(options("extra", "1"))
    assert capsys.readouterr().out == "[extra 1] beside\n"
    verb(cluster).run(options("1"))
    assert capsys.readouterr().out == "these engines have written nothing yet\n"
    with pytest.raises(ConfigError, match="no rank 7"):
        verb(cluster).run(options("7"))


def test_by_default_no_more_than_a_cell_may_show(
    cluster: LoggingCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIBERNB_OUTPUT_LIMIT_LINES", "30")
    for rank in range(SIZE):
        add(cluster.log(f"rank-{rank}"), "".join(f"{line}\n" for line in range(100)))
    verb(cluster).run(options())
    assert len(capsys.readouterr().out.splitlines()) == 30
    verb(cluster).run(options(lines=100))
    assert len(capsys.readouterr().out.splitlines()) == 300


def test_what_is_written_is_followed(cluster: LoggingCluster, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = cluster.log("rank-0"), cluster.log("rank-1")
    add(first, "before\nunfin")
    steps = (
        lambda: add(first, "ished\nnext\n"),
        lambda: add(second, "other\n"),
        lambda: add(cluster.log("rank-1.native"), "native\n"),
        lambda: None,
    )
    verb(cluster, *steps).run(options(follow=True))
    expected = ["[0] before", "[0] unfinished", "[0] next", "[1] other", "[1 native] native"]
    assert capsys.readouterr().out.splitlines() == expected


def test_following_ends_with_the_cluster(cluster: LoggingCluster, capsys: pytest.CaptureFixture[str]) -> None:
    def stop() -> None:
        (cluster.directory / "logs").rmdir()
        cluster.directory.rmdir()

    verb(cluster, stop).run(options(follow=True))
    assert capsys.readouterr().out == "the cluster has ended\n"


def test_lines_are_found_however_long_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    lines = [str(number) * 40_000 for number in range(10)]
    path.write_text("\n".join(lines))
    assert last_lines(path, 3) == lines[-3:]
    assert last_lines(path, 100) == lines
    assert last_lines(path, 0) == []
    assert last_lines(tmp_path / "missing", 5) == []


@pytest.mark.parametrize("length", [CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1])
def test_ends_of_lines_at_the_ends_of_chunks(tmp_path: Path, length: int) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("a\n" + "b" * (length - 1) + "\n")
    assert last_lines(path, 1) == ["b" * (length - 1)]
    assert last_lines(path, 2)[0] == "a"


def test_a_log_that_was_rotated(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("1\n2\n")
    tail = Tail(path)
    add(path, "3\n")
    os.replace(path, f"{path}.1")
    path.write_text("4\n5\n")
    assert last_lines(path, 3) == ["3", "4", "5"]
    assert tail.new_lines() == ["3", "4", "5"]
    add(path, "6\n")
    assert tail.new_lines() == ["6"]


def test_a_log_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.native.log"
    path.write_text("1\n2\n")
    tail = Tail(path)
    (tmp_path / "rank-0.native.log.1").write_text("1\n2\n3\n")
    path.write_text("4\n")
    assert tail.new_lines() == ["3", "4"]


def test_a_log_that_runs_away(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    tail = Tail(path)
    path.write_text("x\n" * MAX_NEW_BYTES)
    first, *rest = tail.new_lines()
    assert first == f"… {MAX_NEW_BYTES:,} bytes skipped: %fiber log -n N …"
    assert len(rest) == MAX_NEW_BYTES // 2
    assert tail.new_lines() == []


def test_what_is_followed_stays_within_the_limit_of_a_cell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[Any] = []
    monkeypatch.setattr("fibernb.notebook.logs.get_ipython", lambda: SimpleNamespace(kernel=True))
    monkeypatch.setattr("fibernb.notebook.logs.clear_output", lambda wait: cleared.append(capsys.readouterr().out))
    window = Window([], Config(output_limit_lines=20, output_limit_bytes=20_000))
    for number in range(50):
        window.show([f"{number}"])
    assert [len(shown.splitlines()) for shown in cleared] == [20, 20]
    assert capsys.readouterr().out.splitlines() == [
        "… older lines: %fiber log -n N …",
        *(str(number) for number in range(37, 50)),
    ]
    window.show(["x" * 100_000])
    assert len(capsys.readouterr().out) < 2_000
