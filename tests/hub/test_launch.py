"""What is left of a cluster that could not be started."""

from __future__ import annotations

from pathlib import Path

import pytest

from fibernb.config import Config
from fibernb.errors import ClusterError
from fibernb.hub import place
from fibernb.hub.launch import launch


def refuse(directory: Path) -> None:
    raise ClusterError(f"{directory} cannot be used: Too many open files")


def test_nothing_is_left_when_the_lock_cannot_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "take_lock", refuse)
    with pytest.raises(ClusterError, match="Too many open files"):
        launch(Config(runtime_dir=str(tmp_path / "run")))
    assert list((tmp_path / "run").iterdir()) == []


def test_a_directory_that_was_given_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another cluster may live there."""
    monkeypatch.setattr(place, "take_lock", refuse)
    with pytest.raises(ClusterError):
        launch(Config(runtime_dir=str(tmp_path)), directory=tmp_path)
    assert tmp_path.is_dir()
