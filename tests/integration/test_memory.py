"""A host that runs short of memory, seen early. What counts is what the engines of this cluster use."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import fibernb as fnb
from fibernb.errors import OutOfMemory
from tests.integration.conftest import Place, wait_until
from tests.integration.loads import leave_mark, marks

PIECE_BYTES: Final = 40_000_000
PIECES: Final = 75  # far more than there is room for


@pytest.fixture
def tight(place: Place) -> Iterator[None]:
    """A cluster of two seats with little memory."""
    fnb.init(workers=2, lease_s=5, memory_fraction=0.5, preload=("tests.integration.own_memory",))
    yield
    fnb.shutdown()
    place.wait_empty()


@pytest.mark.usefixtures("tight")
def test_the_greediest_task_is_stopped_with_the_figures(tmp_path: Path) -> None:
    gate, trace = tmp_path / "gate", tmp_path / "trace"

    @fnb.remote(max_retries=0)
    def wait_at(gate: Path) -> str:
        wait_until(gate.exists, 60)
        return "modest"

    @fnb.remote(max_retries=1)
    def eat(trace: str) -> int:
        leave_mark(trace)
        pieces = []
        for _ in range(PIECES):
            pieces.append(b"x" * PIECE_BYTES)
            time.sleep(0.05)
        return len(pieces)

    modest = wait_at.remote(gate)
    with pytest.raises(OutOfMemory, match=r"used \d+\.\d+ GB, and \d+\.\d+ of \d+\.\d+ GB were in use") as caught:
        fnb.get(eat.remote(str(trace)), timeout=60)
    assert caught.value.signal == 9
    assert marks(trace) == 2
    gate.touch()
    assert fnb.get(modest, timeout=20) == "modest"
