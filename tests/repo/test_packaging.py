"""The package as others get it: its version, its metadata, and that it builds without Node.js."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from fibernb.version import VERSION

ROOT = Path(__file__).resolve().parents[2]


def test_version_is_that_of_package_json() -> None:
    assert json.loads((ROOT / "package.json").read_text())["version"] == VERSION


def test_changelog_tells_of_this_version() -> None:
    assert f"\n## {VERSION}" in (ROOT / "CHANGELOG.md").read_text()


def test_core_requires_no_numpy() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [need for need in project["dependencies"] if need.startswith("numpy")]


def path_without_node(directory: Path) -> str:
    """A PATH that holds what a build needs and no Node.js."""
    for tool in ("git", "sh", "env"):
        if found := shutil.which(tool):
            (directory / tool).symlink_to(found)
    return str(directory)


@pytest.mark.slow
def test_wheel_builds_without_node(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    environment = {**os.environ, "PATH": path_without_node(tools)}
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, env=environment, cwd=tmp_path, timeout=110)
    wheel = tmp_path / f"fibernb-{VERSION}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert "fibernb/__init__.py" in names
    assert "fibernb/core/messages.py" in names
    assert {name.split("/")[0] for name in names} == {"fibernb", f"fibernb-{VERSION}.dist-info"}
