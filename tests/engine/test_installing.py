"""Packages of runtime environments, from wheels that the tests make."""

from __future__ import annotations

import subprocess
import sys
import threading
import types
import zipfile
from pathlib import Path

import pytest

from fibernb.engine import installing
from fibernb.errors import EnvironmentFailed


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return installing.cache_directory()


def wheel(directory: Path, name: str, version: str = "1.0", requires: str = "") -> str:
    """The path of a new wheel with one module, which tells its version."""
    path = directory / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", f"Requires-Dist: {requires}"]
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", f"__version__ = {version!r}")
        file.writestr(f"{about}/METADATA", "\n".join(lines if requires else lines[:3]))
        file.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{about}/top_level.txt", f"{name}\n")
        file.writestr(f"{about}/RECORD", "")
    return str(path)


def test_packages_are_installed_once_by_content(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [wheel(tmp_path, "fnbown_one", requires="msgspec"), wheel(tmp_path, "fnbown_two")]
    target = installing.install(wanted)
    assert target.parent == cache
    assert {path.name for path in target.iterdir() if path.suffix == ".py"} == {"fnbown_one.py", "fnbown_two.py"}
    assert not (target / "msgspec").exists()  # this Python has it
    monkeypatch.setattr(subprocess, "run", None)
    assert installing.install(wanted[::-1]) == target


def test_what_is_there_already_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    target = installing.install(["msgspec"])
    assert list(target.iterdir()) == []


def test_a_failure_has_the_last_lines_of_pip_and_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    missing = str(tmp_path / "fnbown_none-1.0-py3-none-any.whl")
    with pytest.raises(
        EnvironmentFailed, match=r"pip could not install(.|\n)*does not look like|No such file"
    ) as caught:
        installing.install([missing])
    assert len(str(caught.value).splitlines()) <= installing.LAST_LINES + 1
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_a_python_without_pip_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installing, "PIP", (sys.executable, "-c", "import sys; sys.exit('No module named pip')"))
    with pytest.raises(EnvironmentFailed, match="has no pip"):
        installing.install(["x"])
    monkeypatch.setattr(installing, "PIP", (str(tmp_path / "nothing"),))
    with pytest.raises(EnvironmentFailed, match="could not be started"):
        installing.install(["x"])


def test_what_a_killed_installer_has_left_is_removed(tmp_path: Path, cache: Path) -> None:
    wanted = [wheel(tmp_path, "fnbown_three")]
    left = cache / f"{installing.key_of(wanted)}.unfinished"
    left.mkdir(parents=True)
    (left / "half.py").touch()
    target = installing.install(wanted)
    assert not (target / "half.py").exists()


def test_many_at_once_install_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def make(target: Path, _: object) -> None:
        made.append(target)
        target.mkdir()

    monkeypatch.setattr(installing, "_make", make)
    threads = [threading.Thread(target=installing.install, args=(["x"],)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_another_version_of_what_is_loaded_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [wheel(tmp_path, "fnbown_four", "2.0")]
    loaded = types.ModuleType("fnbown_four")
    loaded.__version__ = "1.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fnbown_four", loaded)
    with pytest.raises(EnvironmentFailed, match=r"asks for fnbown_four 2\.0, but engines have loaded 1\.0"):
        installing.install(wanted)
