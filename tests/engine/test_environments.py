"""Runtime environments, entered in this process."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import msgspec
import pytest

from fibernb.engine import environments
from fibernb.engine.environments import Place
from fibernb.errors import EnvironmentFailed


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OWN_BASE", "/base")
    for name in ("OWN_A", "OWN_B"):
        monkeypatch.setenv(name, "before")


def enter(**keys: object) -> Place:
    return environments.enter(msgspec.json.encode(keys).decode())


def test_variables_are_set_and_may_refer_to_others() -> None:
    assert enter(env_vars={"OWN_A": "1", "OWN_B": "${OWN_BASE}/bin:${NO_SUCH}"}) == Place((), False)
    assert (os.environ["OWN_A"], os.environ["OWN_B"]) == ("1", "/base/bin:")


def test_directories_stand_first_on_the_path(tmp_path: Path) -> None:
    work, modules = tmp_path / "work", tmp_path / "modules"
    for directory in (work, modules):
        directory.mkdir()
    (modules / "own_module_of_an_environment.py").write_text("value = 7")
    place = enter(working_dir=str(work), py_modules=[str(modules)])
    assert place == Place((str(work), str(modules)), True)
    assert Path.cwd() == work
    assert sys.path[:2] == [str(work), str(modules)]
    assert importlib.import_module("own_module_of_an_environment").value == 7
    del sys.modules["own_module_of_an_environment"]


def test_a_directory_that_is_not_there_is_named() -> None:
    with pytest.raises(EnvironmentFailed, match="/no/such/place"):
        enter(py_modules=["/no/such/place"])


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(EnvironmentFailed, match="cannot be read"):
        environments.enter('{"env_vars": 3}')


def test_packages_stand_behind_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "install", lambda wanted: tmp_path / "-".join(wanted))
    assert enter(pip=["a", "b"]).paths == (str(tmp_path / "a-b"),)
