from __future__ import annotations

from collections.abc import Callable

import fibernb as fnb
from fibernb.multiprocessing.pooling.asking import Asking


def worker(**needs: float) -> Callable[[], None]:
    """What stands for the process of a worker that asked for so much."""

    @fnb.meta(**needs)
    def process() -> None: ...

    return process


def test_workers_ask_for_the_most_that_any_job_needs() -> None:
    asking = Asking()
    assert asking.add(1, {"cpu": 2})
    assert not asking.add(2, {"cpu": 1})
    assert asking.add(3, {"cpu": 1, "mem": 10})
    assert asking.current == {"cpu": 2, "mem": 10}


def test_only_what_needs_it_fails_when_it_cannot_be_had() -> None:
    asking = Asking()
    asking.add(1, {"cpu": 1})
    asking.granted(worker(cpu=1))
    asking.add(2, {"cpu": 500})
    asking.add(3, {"cpu": 500})
    asking.forget(3)
    assert asking.denied(worker(cpu=500)) == [2]
    assert asking.current == {"cpu": 1}
    assert asking.denied(worker(cpu=500)) == []


def test_there_are_no_workers_when_what_is_asked_for_at_least_cannot_be_had() -> None:
    asking = Asking()
    assert asking.denied(worker()) is None
