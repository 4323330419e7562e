"""The kernel that loads the magics by itself: made, used, removed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

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


def test_a_name_that_no_kernel_can_have(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--user", "--name", "../x"]) == 1
    assert "a kernel cannot be called '../x'" in capsys.readouterr().err


def test_what_is_not_ours_is_not_removed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["uninstall", "--user"]) == 1
    assert "there is no kernel of FiberNB in" in capsys.readouterr().err
    other = data / "kernels" / "other"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text('{"argv": ["python"]}')
    assert main(["uninstall", "--user", "--name", "other"]) == 1
    assert other.exists()


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
