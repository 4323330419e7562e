"""The kernel that loads the magics by itself: made, used, removed."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import start_new_kernel

from fibernb.cli import main


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jupyter's data directory of the user."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def test_for_the_user(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--user", "--json"]) == 0
    directory = data / "kernels" / "fibernb"
    assert json.loads(capsys.readouterr().out) == {"directory": str(directory), "name": "fibernb"}
    spec = KernelSpecManager().get_kernel_spec("fibernb")
    assert spec.display_name == "Python (FiberNB)"
    assert spec.argv[0] == sys.executable
    assert spec.argv[-2:] == ["--ext", "fibernb"]


def test_again_and_under_another_name(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["install", "--user", "--name", "mine", "--display-name", "Mine"]) == 0
    assert KernelSpecManager().get_kernel_spec("mine").display_name == "Mine"
    assert main(["uninstall", "--user", "--name", "mine"]) == 0
    assert not (data / "kernels" / "mine").exists()


def test_below_a_prefix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--prefix", str(tmp_path)]) == 0
    assert (tmp_path / "share" / "jupyter" / "kernels" / "fibernb" / "kernel.json").exists()


def test_where_it_belongs_by_default(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    assert main(["install"]) == 0
    assert (tmp_path / "environment" / "share" / "jupyter" / "kernels" / "fibernb").exists()
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "environment"))
    assert main(["install"]) == 0
    assert (data / "kernels" / "fibernb").exists()


@pytest.mark.parametrize("name", ["../x", "..", ".", ".hidden", "", "a b", "-x", "é"])
@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_names_that_no_kernel_can_have(data: Path, capsys: pytest.CaptureFixture[str], verb: str, name: str) -> None:
    other = data / "kernels" / "other"
    other.mkdir(parents=True)
    assert main([verb, "--user", f"--name={name}"]) == 1
    assert f"a kernel cannot be called {name!r}" in capsys.readouterr().err
    assert other.exists()


def test_names_have_no_capitals_as_jupyter_has_it(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--user", "--name", "Mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "mine"
    assert KernelSpecManager().get_kernel_spec("Mine").argv[-1] == "fibernb"
    assert main(["uninstall", "--user", "--name", "MINE"]) == 0
    assert not (data / "kernels" / "mine").exists()


def test_what_is_not_ours_is_not_removed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["uninstall", "--user"]) == 1
    assert "there is no kernel of FiberNB in" in capsys.readouterr().err
    other = data / "kernels" / "other"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text('{"argv": ["python"]}')
    assert main(["uninstall", "--user", "--name", "other"]) == 1
    assert other.exists()


@pytest.mark.parametrize("content", ['{"argv": ["python", "-m", "ipykernel_launcher"]}', "{", '{"argv": 3}', None])
def test_what_is_not_ours_is_not_replaced(data: Path, capsys: pytest.CaptureFixture[str], content: str | None) -> None:
    other = data / "kernels" / "python3"
    other.mkdir(parents=True)
    if content is not None:
        (other / "kernel.json").write_text(content)
    assert main(["install", "--user", "--name", "python3"]) == 1
    assert "is a kernel of somebody else's: give another --name" in capsys.readouterr().err
    assert [path.read_text() for path in other.iterdir()] == ([] if content is None else [content])


def test_places_where_nothing_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "share").write_text("a file")
    assert main(["install", "--prefix", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"fibernb: cannot write {tmp_path / 'share'}")
    assert "--user" in said


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_places_that_contradict_each_other(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--user", "--sys-prefix"])
    assert "not allowed with" in capsys.readouterr().err


def test_in_an_environment_of_its_own(tmp_path: Path) -> None:
    python = environment(tmp_path / "env")

    def run(*words: str) -> Any:
        done = subprocess.run([python, "-m", *words], check=True, capture_output=True, cwd=tmp_path, timeout=60)
        return json.loads(done.stdout)

    target = tmp_path / "env" / "share" / "jupyter" / "kernels" / "mine"
    installed = run("fibernb", "install", "--sys-prefix", "--name", "mine", "--json")
    assert installed == {"directory": str(target), "name": "mine"}
    listed = run("jupyter_client.kernelspecapp", "list", "--json")["kernelspecs"]["mine"]
    assert listed["resource_dir"] == str(target)
    assert listed["spec"]["argv"][0] == str(python)
    assert listed["spec"]["argv"][-2:] == ["--ext", "fibernb"]
    assert run("fibernb", "uninstall", "--sys-prefix", "--name", "mine", "--json") == {"removed": str(target)}
    assert "mine" not in run("jupyter_client.kernelspecapp", "list", "--json")["kernelspecs"]


def environment(place: Path) -> Path:
    """A virtual environment that sees the packages of this one; its Python."""
    venv.create(place, with_pip=False)
    (packages,) = place.glob("lib/python*/site-packages")
    lines = [str(Path(__file__).parents[2]), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages / "those_of_the_tests.pth").write_text("\n".join(lines))
    return place / "bin" / "python"


def test_the_kernel_has_the_magics(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["install", "--user"])
    manager, client = start_new_kernel(kernel_name="fibernb", startup_timeout=60)
    try:
        outputs: list[str] = []
        client.execute_interactive(
            "print('fibernb' in get_ipython().extension_manager.loaded)",
            output_hook=lambda message: outputs.append(message["content"].get("text", "")),
            timeout=60,
        )
        assert "".join(outputs).strip() == "True"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
