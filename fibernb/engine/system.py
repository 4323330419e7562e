"""What engines and nodes ask of the operating system beyond the standard library."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_NAME: Final = 15
M_ARENA_MAX: Final = -8
CGROUP_ROOT: Final = Path("/sys/fs/cgroup")

_libc: Final = ctypes.CDLL(None)
_KILL: Final = int(signal.SIGKILL)


def use_one_arena() -> None:
    """Let the threads of this process and its children share one heap, which keeps small processes small."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(M_ARENA_MAX, 1)


def die_with_parent(parent: int) -> None:
    """Let this process be killed when its parent ends. Elsewhere than on Linux nothing happens."""
    if sys.platform == "linux":
        _libc.prctl(PR_SET_PDEATHSIG, _KILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def set_process_name(name: str) -> None:
    """The name that ``ps`` and ``top`` show; at most 15 characters. Elsewhere than on Linux nothing happens."""
    if sys.platform == "linux":
        _libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def raise_file_limit() -> None:
    """Let this process and its children open as many files as they may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        return  # macOS says "unlimited" and does not mean it


def fork_limits() -> str:
    """The limits that can keep a process from forking, for people."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    limits = [] if soft == resource.RLIM_INFINITY else [f"processes of this user (ulimit -u): {soft}"]
    limits += _read_limit("processes of the control group (pids.max)", "pids", "pids.max")
    limits += _read_limit("memory of the control group in bytes", "memory", "memory.max", "memory.limit_in_bytes")
    return "; ".join(limits)


def _read_limit(what: str, controller: str, *names: str) -> list[str]:
    for name in names:
        text = _read(controller, name)
        if text and text != "max" and not (text.isdigit() and int(text) >= 2**62):
            return [f"{what}: {text}"]
    return []


def out_of_memory_kills() -> int:
    """How many processes the kernel has killed in our control group because its memory was used up."""
    for name in ("memory.events", "memory.oom_control"):
        for line in _read("memory", name).splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value)
    return 0


def memory_limit_bytes() -> int | None:
    """The memory that our control group may use, if that is limited."""
    for name in ("memory.max", "memory.limit_in_bytes"):
        text = _read("memory", name)
        if text.isdigit() and int(text) < 2**62:
            return int(text)
    return None


def _read(controller: str, name: str) -> str:
    """A file of our control group, of either version; empty when there is none."""
    for directory in _control_groups(controller):
        try:
            return (directory / name).read_text().strip()
        except OSError:
            continue
    return ""


def _control_groups(controller: str) -> list[Path]:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += [CGROUP_ROOT / path.lstrip("/"), CGROUP_ROOT]
        elif controller in controllers.split(","):
            found += [CGROUP_ROOT / controller / path.lstrip("/"), CGROUP_ROOT / controller]
    return found
