"""What this host has for tasks that ask for more than a cpu: GPUs, memory, and what the configuration names."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fibernb.config import Config
from fibernb.model import Resources
from fibernb.store import memory

DRIVER: Final = Path("/proc/driver/nvidia/gpus")  # a directory for each GPU
DEVICES: Final = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # one of them is there where a GPU is
ASK_TIMEOUT_S: Final = 5.0  # a driver that hangs must not keep the hub from starting


def of_host(config: Config, environ: Mapping[str, str] | None = None) -> Resources:
    """What engines on this host share beyond one cpu a seat: as configured, else as found."""
    configured = {name: round(amount * 1000) for name, amount in config.resources.items()}
    milli_gpus = configured.pop("gpus", None)
    milli_bytes = configured.pop("memory", None)
    if milli_gpus is None:
        milli_gpus = 1000 * gpu_count(os.environ if environ is None else environ)
    memory_bytes = memory.limit_bytes(memory.accounts()) if milli_bytes is None else milli_bytes // 1000
    return Resources(milli_cpus=0, milli_gpus=milli_gpus, memory_bytes=memory_bytes, custom=configured)


def gpu_count(environ: Mapping[str, str]) -> int:
    """How many GPUs this process may use: those that CUDA_VISIBLE_DEVICES names, else all that there are."""
    named = environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return _count_named(named)
    if DRIVER.is_dir():
        return sum(1 for _ in DRIVER.iterdir())
    return _count_told() if any(device.exists() for device in DEVICES) else 0


def _count_named(text: str) -> int:
    """As CUDA reads it: what stands after the first name that is none does not count."""
    count = 0
    for name in (word.strip() for word in text.split(",")):
        if not name or name.startswith("-") or name == "NoDevFiles":
            break
        count += 1
    return count


def _count_told() -> int:
    """As nvidia-smi tells."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    try:
        told = subprocess.run([program, "-L"], capture_output=True, timeout=ASK_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith(b"GPU ") for line in told.stdout.splitlines()) if told.returncode == 0 else 0
