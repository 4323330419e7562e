"""``fibernb doctor`` on hosts of all kinds."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from fibernb.cli import doctor, main
from fibernb.hub import limits
from fibernb.store import memory, sizes


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory without clusters, on a host with 10 GB of memory."""
    monkeypatch.setenv("FIBERNB_RUNTIME_DIR", str(tmp_path / "run"))
    give_memory(monkeypatch, 10_000_000_000, 1_000_000_000)
    return tmp_path


def give_memory(monkeypatch: pytest.MonkeyPatch, limit_bytes: int, used_bytes: int) -> None:
    account = memory.Account(what="this host", limit_bytes=limit_bytes, used_bytes=used_bytes)
    monkeypatch.setattr(memory, "accounts", lambda: [account])


def findings(capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, dict[str, Any]]:
    assert main(["doctor", "--json"]) == code
    return {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_doctor_of_a_good_host(nobody: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys)
    usual = {"system", "ipykernel", "seats", "runtime directory", "sockets", "configuration", "open files", "gpus"}
    assert usual <= set(found)
    assert not [finding for finding in found.values() if finding["state"] == "problem"]
    assert found["memory"]["text"] == "1,000 of 10,000 MB of this host are in use"
    assert found["object store"]["text"] == "at most 2,999 MB, 30 % of 10,000 MB of memory"


def test_doctor_says_what_is_wrong_and_fails(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (nobody / "run").mkdir()
    (nobody / "run").chmod(0o777)
    monkeypatch.setattr(limits, "seat_limit", lambda config: limits.Limit(5, "the test allows 5"))
    monkeypatch.setattr("fibernb.cli.doctor.SHARED_MEMORY", nobody)
    monkeypatch.setattr("fibernb.cli.doctor.ENOUGH_SHARED_BYTES", 1 << 80)
    monkeypatch.setattr("fibernb.cli.doctor.NEEDED", {"ipykernel": 999, "no-such-package": 1})
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "is open to others" in text
    assert "at most 5, because the test allows 5" in text
    assert "docker run --shm-size" in text
    assert "pip install 'ipykernel>=999'" in text
    assert "pip install no-such-package" in text


def test_doctor_survives_a_wrong_configuration(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIBERNB_LEASE_S", "soon")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(nobody))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert main(["doctor"]) == 1
    assert "lease_s cannot be 'soon'" in capsys.readouterr().out


def test_doctor_finds_paths_that_are_too_long_for_sockets(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIBERNB_RUNTIME_DIR", str(nobody / ("x" * 120)))
    assert main(["doctor"]) == 1
    assert "local directory" in capsys.readouterr().out


def test_a_host_that_is_nearly_full(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    give_memory(monkeypatch, 1_000_000_000, 960_000_000)
    found = findings(capsys)
    assert found["memory"]["state"] == "warning"
    assert "over 95% tasks are stopped" in found["memory"]["text"]
    assert found["object store"]["state"] == "warning"
    assert "set store_bytes" in found["object store"]["text"]


def test_a_system_that_does_not_tell_its_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory, "accounts", list)
    assert "does not tell" in findings(capsys)["memory"]["text"]


def test_few_open_files(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    monkeypatch.setattr(limits, "raise_file_limit", lambda: 1024)
    found = findings(capsys)["open files"]
    assert found["state"] == "warning"
    assert found["text"].startswith("1024 are allowed")


def test_any_number_of_open_files(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(limits, "seat_limit", lambda config: limits.Limit(500, "the test allows it"))
    assert findings(capsys)["open files"]["text"] == "any number allowed"


def test_directories_that_are_not_there(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIBERNB_SPILL_DIR", str(nobody / "nowhere"))
    found = findings(capsys, 1)["object store"]
    assert found["state"] == "problem"
    assert "spill_dir is" in found["text"]


def test_an_arena_in_a_file(nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FIBERNB_STORE_DIR", str(nobody))
    assert f"MB in {nobody}, " in findings(capsys)["object store"]["text"]


def test_a_host_without_a_disk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sizes, "spill_place", lambda *_: None)
    found = findings(capsys)["spilling"]
    assert found["state"] == "warning"
    assert "refused: no directory on a disk" in found["text"]


def test_a_disk_that_is_smaller_than_promised(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIBERNB_SPILL_DIR", str(nobody))
    monkeypatch.setenv("FIBERNB_SPILL_BYTES", str(10**15))
    found = findings(capsys)["spilling"]
    assert found["state"] == "warning"
    assert "fewer than spill_bytes allows" in found["text"]


def test_shared_memory_that_cannot_be_written(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "SHARED_MEMORY", nobody / "shm")
    assert "shared memory" not in findings(capsys)
    (nobody / "shm").mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != nobody / "shm" and access(path, mode))
    assert "mode 1777" in findings(capsys)["shared memory"]["text"]


def test_gpus(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert findings(capsys)["gpus"]["text"] == "2"
