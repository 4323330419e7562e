"""What a host has for tasks, read from a system that the test makes up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fibernb.config import Config
from fibernb.hub import capacity
from fibernb.model import Resources
from fibernb.store import memory

MEGABYTE = 1_000_000


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither GPUs nor programs that tell of some; a megabyte of memory."""
    monkeypatch.setattr(capacity, "DRIVER", tmp_path / "driver")
    monkeypatch.setattr(capacity, "DEVICES", (tmp_path / "device",))
    monkeypatch.setenv("PATH", str(tmp_path))
    account = memory.Account(what="this host", limit_bytes=MEGABYTE, used_bytes=5)
    monkeypatch.setattr(memory, "accounts", lambda: [account])


def tell(tmp_path: Path, script: str) -> None:
    (tmp_path / "device").touch()
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)


def test_what_is_configured_counts() -> None:
    config = Config(resources={"gpus": 2, "memory": 8e9, "licence": 1.5})
    assert capacity.of_host(config, {}) == Resources(
        milli_cpus=0, milli_gpus=2000, memory_bytes=8_000_000_000, custom={"licence": 1500}
    )


def test_a_host_without_gpus_has_its_memory() -> None:
    assert capacity.of_host(Config(), {}) == Resources(milli_cpus=0, memory_bytes=MEGABYTE)


def test_configured_to_have_none() -> None:
    config = Config(resources={"gpus": 0, "memory": 0})
    assert capacity.of_host(config, {"CUDA_VISIBLE_DEVICES": "0"}) == Resources(milli_cpus=0)


@pytest.mark.parametrize(
    ("named", "count"),
    [
        ("0", 1),
        ("0,1,2", 3),
        ("GPU-8932,GPU-11", 2),
        ("", 0),
        ("-1", 0),
        ("0,-1,1", 1),
        ("NoDevFiles", 0),
        (" 1 , 2", 2),
    ],
)
def test_gpus_that_this_process_may_see(named: str, count: int) -> None:
    assert capacity.gpu_count({"CUDA_VISIBLE_DEVICES": named}) == count


def test_gpus_that_the_driver_lists(tmp_path: Path) -> None:
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "driver" / name).mkdir(parents=True)
    assert capacity.gpu_count({}) == 2


def test_gpus_that_nvidia_smi_tells(tmp_path: Path) -> None:
    tell(tmp_path, "echo 'GPU 0: a (UUID: x)'; echo 'GPU 1: b'; echo done")
    assert capacity.gpu_count({}) == 2


@pytest.mark.parametrize("script", ["echo 'GPU 0: a'; exit 9", "echo No devices were found"])
def test_a_driver_that_is_broken(tmp_path: Path, script: str) -> None:
    tell(tmp_path, script)
    assert capacity.gpu_count({}) == 0


def test_a_device_file_without_the_program(tmp_path: Path) -> None:
    (tmp_path / "device").touch()
    assert capacity.gpu_count({}) == 0


def test_a_driver_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("nvidia-smi", 5)

    tell(tmp_path, "")
    monkeypatch.setattr(subprocess, "run", hang)
    assert capacity.gpu_count({}) == 0
