from __future__ import annotations

import json
import os
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fibernb.client import environments, packages
from fibernb.errors import ConfigError
from fibernb.runtime_env import RuntimeEnv


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "package").mkdir(parents=True)
    (project / "package/__init__.py").write_text("VALUE = 1\n")
    (project / "data.csv").write_text("1,2\n")
    (project / "notes.log").write_text("x\n")
    (project / ".gitignore").write_text("*.log\n")
    return project


def made(given: Any) -> dict[str, Any]:
    return dict(json.loads(environments.parse(given)))


def test_nothing_is_asked_for() -> None:
    assert environments.parse(None) == environments.parse({}) == environments.parse({"env_vars": {}}) == ""


def test_equal_environments_are_equal_texts() -> None:
    first = environments.parse({"env_vars": {"A": "1", "B": "2"}, "pip": ["y", "x"]})
    assert first == environments.parse({"pip": ["x", "y"], "env_vars": {"B": "2", "A": "1"}})
    assert environments.described(first) == {"env_vars": {"A": "1", "B": "2"}, "pip": ["x", "y"]}
    assert environments.described("") == {}


def test_a_directory_stands_for_its_content(project: Path) -> None:
    place = Path(made({"working_dir": str(project), "excludes": ["data.*"]})["working_dir"])
    assert sorted(path.name for path in place.rglob("*")) == [".gitignore", "__init__.py", "package"]
    assert made({"working_dir": project, "excludes": ["data.*"]})["working_dir"] == str(place), "copied once"
    (project / "package/__init__.py").write_text("VALUE = 2\n")
    changed = Path(made({"working_dir": str(project)})["working_dir"])
    assert changed != place
    assert (place / "package/__init__.py").read_text() == "VALUE = 1\n"


def test_modules_stand_under_their_names(project: Path) -> None:
    module = types.ModuleType("single")
    module.__file__ = str(project / "single.py")
    Path(module.__file__).write_text("VALUE = 3\n")
    first, second = made({"py_modules": [str(project / "package"), module]})["py_modules"]
    assert (Path(first) / "package/__init__.py").is_file()
    assert (Path(second) / "single.py").is_file()


def test_wheels_are_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "thing-1.whl"
    with zipfile.ZipFile(wheel, "w") as content:
        content.writestr("thing/__init__.py", "")
    (place,) = made({"py_modules": [wheel]})["py_modules"]
    assert (Path(place) / "thing/__init__.py").is_file()
    wheel.write_text("no zip")
    with pytest.raises(ConfigError, match="unpacked"):
        environments.parse({"py_modules": [wheel]})


def test_requirements(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# these\nb==1\n\na\n")
    assert made({"pip": str(tmp_path / "requirements.txt")}) == {"pip": ["b==1", "a"]}
    assert made({"pip": {"packages": ["a"], "pip_check": False}}) == {"pip": ["a"]}
    assert made({"uv": ["a"]}) == {"pip": ["a"]}


def test_projects_and_archives_among_requirements_stand_for_their_content(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    wheel = project.parent / "thing-1-py3-none-any.whl"
    wheel.write_text("first")
    asked = ["./project[all,dev]", "project/", str(project), wheel.name, str(wheel)]
    first = made({"pip": asked})["pip"]
    place = next(text for text in first if "[" not in text and "whl" not in text)
    kept = next(text for text in first if text.endswith(f"/{wheel.name}"))
    assert sorted(first) == sorted([f"{place}[all,dev]", place, place, wheel.name, kept])
    assert (Path(place) / "package/__init__.py").read_text() == "VALUE = 1\n"
    (project / "package/__init__.py").write_text("VALUE = 2\n")
    wheel.write_text("second")
    assert not set(made({"pip": asked})["pip"]).intersection(first) - {wheel.name}
    assert Path(kept).read_text() == "first"


@pytest.mark.parametrize(
    "text",
    ["a", "a[x]>=1,<2; python_version>'3'", "a @ file:///tmp/a", "git+https://host/a.git@v1", "-r some/file", "-e ."],
)
def test_requirements_that_are_no_paths_stay_what_they_are(text: str) -> None:
    assert made({"pip": [text]}) == {"pip": [text]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "accepts a dict"),
        ({"env_var": {}}, "Did you mean 'env_vars'"),
        ({"zzz": 1}, "The keys are"),
        ({"conda": "x"}, "'pip'"),
        ({"env_vars": ["A"]}, "dict of names"),
        ({"env_vars": {"A": 1}}, "accepts a str: '1'"),
        ({"env_vars": {"A=B": "1"}}, "cannot be called"),
        ({"working_dir": "/nowhere/at/all"}, "no directory"),
        ({"working_dir": 5}, "local directory"),
        ({"working_dir": "s3://bucket/x.zip"}, "fetch it first"),
        ({"py_modules": "x"}, "list of paths"),
        ({"py_modules": ["/nowhere/at/all"]}, r"py_modules'\]\[0\]"),
        ({"py_modules": [types.ModuleType("bare")]}, "no file"),
        ({"pip": 5}, "list of texts"),
        ({"pip": {"package": ["x"]}}, "packages"),
        ({"pip": "/nowhere/requirements.txt"}, "cannot be read"),
        ({"pip": ["/nowhere/project"]}, "no project, wheel or archive at /nowhere/project"),
        ({"pip": ["./nowhere"]}, "no project, wheel or archive at"),
        ({"excludes": "x"}, "list of texts"),
    ],
)
def test_bad_environments(given: Any, message: str) -> None:
    if isinstance(given, dict) and given.get("py_modules") and isinstance(given["py_modules"][0], types.ModuleType):
        given["py_modules"][0].__file__ = None
    with pytest.raises(ConfigError, match=message):
        environments.parse(given)


def test_too_large_a_directory_names_what_is_large(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "LIMIT_BYTES", 2)
    with pytest.raises(ConfigError, match=r"data\.csv.*excludes"):
        environments.parse({"working_dir": str(project)})


def test_what_cannot_be_read_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(project / "data.csv"))

    monkeypatch.setattr(packages, "_digest", fail)
    with pytest.raises(ConfigError, match=r"data\.csv cannot be packaged: Permission denied"):
        environments.parse({"working_dir": str(project)})


def test_packages_that_nobody_uses_go(project: Path) -> None:
    old = Path(made({"working_dir": str(project)})["working_dir"])
    os.utime(old, (0, 0))
    (project / "data.csv").write_text("3\n")
    made({"working_dir": str(project)})
    assert not old.exists()


def test_environments_of_jobs_and_tasks() -> None:
    job = environments.parse({"env_vars": {"A": "1", "B": "1"}, "pip": ["x"]})
    own = environments.parse({"env_vars": {"B": "2"}})
    assert environments.merged(job, "") == job
    assert environments.merged("", own) == own
    assert environments.described(environments.merged(job, own)) == {"env_vars": {"A": "1", "B": "2"}, "pip": ["x"]}


def test_runtime_env_is_a_dict_that_is_checked() -> None:
    assert RuntimeEnv(env_vars={"A": "1"}, pip=None) == {"env_vars": {"A": "1"}}
    with pytest.raises(ConfigError, match="env_vars"):
        RuntimeEnv(env_var={})
