"""Tasks that wait for the test: a gate is a file that does not exist yet."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import fibernb as ray

PATIENCE_S = 30


def pass_gate(gate: str) -> None:
    """Return when the gate is open."""
    deadline = time.monotonic() + PATIENCE_S
    while not Path(gate).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody opened {gate}")
        time.sleep(0.005)


def open_gate(gate: str) -> None:
    Path(gate).touch()


@ray.remote
def after(gate: str, value: Any = None) -> Any:
    """The value, once the gate is open."""
    pass_gate(gate)
    return value
