"""What a cluster's memory is said to be."""

import os

from fibernb.core.messages import SeatStatus, Status
from fibernb.notebook.memory import memory_of

NOBODY = 2**22 + 1  # above every process number


def status(hub: int, engines: list[int]) -> Status:
    seats = [SeatStatus(rank=rank, engine=rank, state="idle", pid=pid) for rank, pid in enumerate(engines)]
    return Status(
        request=1, seats=1, ready=1, busy=0, starting=0, waiting=0, queued=0, running=0, finished=0, failed=0,
        refused=0, engines=seats, clients=1, pending=[], pid=hub,
    )  # fmt: skip


def test_hub_and_engines() -> None:
    alone = memory_of(status(os.getpid(), []))
    assert alone is not None
    both = memory_of(status(os.getpid(), [os.getpid(), NOBODY]))
    assert both is not None
    assert both > alone > 1_000_000


def test_processes_of_another_host() -> None:
    assert memory_of(status(NOBODY, [])) is None
    assert memory_of(status(os.getpid(), [NOBODY])) is None
