"""Which cluster a notebook uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from fibernb.client import api
from fibernb.errors import ConfigError, NotConnected
from fibernb.hub.connection import Connection
from fibernb.notebook.clusters import Clusters, Mark, choose, earlier_of, here, read_mark, write_mark


def connection(directory: Path, name: str, started_at: float, mark: Mark | None = None) -> Connection:
    path = directory / name
    path.mkdir()
    if mark is not None:
        write_mark(path, mark)
    return Connection(name=name, address="", key="", pid=1, started_at=started_at, directory=str(path))


def test_the_only_one(tmp_path: Path) -> None:
    only = connection(tmp_path, "a", 1.0)
    assert choose([only], here()) is only
    with pytest.raises(NotConnected, match="no cluster of yours"):
        choose([], here())


def test_the_latest_of_this_notebook(tmp_path: Path) -> None:
    mine = Mark(notebook="n.ipynb", directory="/d")
    running = [
        connection(tmp_path, "a", 1.0, mine),
        connection(tmp_path, "b", 2.0, mine),
        connection(tmp_path, "c", 3.0, Mark(notebook="other.ipynb", directory="/d")),
        connection(tmp_path, "d", 4.0, Mark(notebook="other.ipynb", directory="/e")),
    ]
    assert choose(running, mine).name == "b"
    assert choose(running, Mark(directory="/d")).name == "c"
    assert choose(running, Mark(notebook="third.ipynb", directory="/e")).name == "d"
    with pytest.raises(ConfigError, match=r"a, b, c, d\. Say which one: %fiber attach a"):
        choose(running, Mark(directory="/f"))


def test_what_an_earlier_kernel_has_left(tmp_path: Path) -> None:
    mine = Mark(notebook="n.ipynb", directory="/d")
    running = [
        connection(tmp_path, "a", 2.0, mine),
        connection(tmp_path, "b", 3.0, mine),
        connection(tmp_path, "c", 1.0, mine),
        connection(tmp_path, "d", 4.0, Mark(notebook="other.ipynb", directory="/d")),
        connection(tmp_path, "e", 5.0),
    ]
    found = [earlier_of(running, mine, own) for own in ("", "b")]
    assert [earlier and earlier.name for earlier in found] == ["b", "a"]
    assert earlier_of(running[3:], mine, "") is None
    assert earlier_of(running, Mark(directory="/d"), "") is None
    assert earlier_of(running[4:], Mark(), "") is None


def test_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "n.ipynb")
    monkeypatch.chdir(tmp_path)
    write_mark(tmp_path, here())
    assert read_mark(tmp_path) == Mark(notebook="n.ipynb", directory=str(tmp_path))
    (tmp_path / "notebook.json").write_text("{")
    assert read_mark(tmp_path) == read_mark(tmp_path / "nowhere") == Mark()


def test_none_in_use() -> None:
    assert not api.is_initialized()
    Clusters().begin_cell()
    assert not api.is_initialized()
    with pytest.raises(NotConnected, match="%fiber scale 4"):
        Clusters().existing()


class Running:
    """A cluster in use."""

    name = "blue"
    directory = Path("/run/blue")
    size = 2
    owned = False


def test_another_than_the_one_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "is_initialized", lambda: True)
    monkeypatch.setattr(api, "current_cluster", Running)
    clusters = Clusters()
    assert clusters.size() == 2
    for name in (None, "blue", "/run/blue"):
        assert isinstance(clusters.attach(name), Running)
    with pytest.raises(ConfigError, match="uses cluster blue, not red: %fiber detach leaves"):
        clusters.attach("red")
    with pytest.raises(ConfigError, match="uses cluster blue, not red: %fiber detach leaves"):
        clusters.start(None, None, "red", {})
    with pytest.raises(ConfigError, match="cluster blue runs already, and settings hold from the start on"):
        clusters.start(3, None, None, {"lease_s": 5.0})
