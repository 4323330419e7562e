"""A host that runs short of memory, seen early: the limit is set just above what is in use."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import fibernb as fnb
from fibernb.errors import OutOfMemory
from fibernb.store.memory import accounts, tightest
from tests.integration.conftest import Place, wait_until
from tests.integration.loads import leave_mark, marks

ROOM_BYTES: Final = 600_000_000  # from what is in use to the limit
PIECE_BYTES: Final = 40_000_000
PIECES: Final = 75  # which others on this host may have to free before the limit is reached


@pytest.fixture
def tight(place: Place) -> Iterator[None]:
    """A cluster of two seats with little memory left."""
    account = tightest(accounts())
    assert account is not None
    fnb.init(workers=2, lease_s=5, memory_fraction=(account.used_bytes + ROOM_BYTES) / account.limit_bytes)
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
