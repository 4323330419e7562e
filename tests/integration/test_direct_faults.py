"""Calls that go past the hub, while engines, hubs and seats come and go."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fibernb as fnb
from fibernb.client.cluster import Cluster
from fibernb.errors import ActorDied, WorkerDied
from tests.integration.conftest import wait_until
from tests.integration.direct import lead, pid


def test_an_engine_that_has_other_work(own_cluster: Cluster) -> None:
    """Who gets work of others' takes no more calls; the client goes on by way of the hub, and finds another engine."""
    engine = lead(pid.remote)

    @fnb.remote
    def hold(seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()

    held = [hold.remote(1.0) for _ in range(len(own_cluster.status().engines))]
    own_cluster.session.flush()
    found = [fnb.get(pid.remote(), timeout=30) for _ in range(30)]
    assert len(found) == 30
    assert engine in fnb.get(held)
    lead(pid.remote)


def test_the_engine_is_restarted(own_cluster: Cluster) -> None:
    engine = lead(pid.remote)
    own_cluster.restart()
    assert fnb.get(pid.remote(), timeout=30) != engine
    lead(pid.remote)


def test_the_cluster_shrinks(own_cluster: Cluster) -> None:
    lead(pid.remote)
    own_cluster.scale(1)
    for _ in range(50):
        assert fnb.get(pid.remote(), timeout=30)
    wait_until(lambda: len(own_cluster.status().engines) == 1)


@pytest.mark.parametrize("retries", [0, -1])
def test_an_actors_engine_dies(own_cluster: Cluster, tmp_path: Path, retries: int) -> None:
    """Every call that was answered has run; without retries, none has run twice."""
    trace = tmp_path / "trace"

    class Tracing:
        def mark(self, number: int, seconds: float) -> int:
            with trace.open("a") as file:
                file.write(f"{number}\n")
            time.sleep(seconds)
            return number

        def pid(self) -> int:
            return os.getpid()

    tracing: Any = fnb.remote(max_restarts=-1, max_task_retries=retries)(Tracing).remote()
    sure = tracing.pid.options(max_task_retries=-1)
    answered: list[int] = []
    deaths: list[str] = []
    for number in range(300):
        if number % 50 == 25:
            victim = fnb.get(sure.remote(), timeout=30)
            lead(sure.remote, tracing)
            threading.Timer(0.004, os.kill, (victim, signal.SIGKILL)).start()
        try:
            answered.append(fnb.get(tracing.mark.remote(number, 0.01 if number % 50 == 25 else 0), timeout=30))
        except ActorDied as error:
            deaths.append(str(error))
    runs = Counter(map(int, trace.read_text().split()))
    assert set(answered) <= runs.keys()
    if retries:
        assert answered == list(range(300))
    else:
        assert max(runs.values()) == 1
        assert len(answered) + len(deaths) == 300
        assert all("may have begun" in death for death in deaths)


def test_a_tasks_engine_dies(own_cluster: Cluster, tmp_path: Path) -> None:
    @fnb.remote
    def die_once(path: str) -> int:
        if not os.path.exists(path):
            open(path, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return 7

    for turn in range(3):
        lead(pid.remote)
        assert fnb.get(die_once.remote(str(tmp_path / f"mark{turn}")), timeout=30) == 7
    lead(pid.remote)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        fnb.get(die_once.options(max_retries=0).remote(str(tmp_path / "another")), timeout=30)
    assert fnb.get(pid.remote(), timeout=30)


def test_the_hub_is_killed(own_cluster: Cluster, tmp_path: Path) -> None:
    """Whatever was under way is answered, and has run once."""
    trace = tmp_path / "trace"

    class Tracing:
        def mark(self, number: int, seconds: float) -> int:
            with trace.open("a") as file:
                file.write(f"{number}\n")
            time.sleep(seconds)
            return number

    tracing: Any = fnb.remote(Tracing).remote()
    lead(lambda: tracing.mark.remote(-1, 0), tracing)
    begun = trace.read_text().split().count("-1")
    for number in range(120):
        if number % 40 == 20:
            hub = own_cluster.status().pid
            lead(lambda: tracing.mark.remote(-1, 0), tracing)
            threading.Timer(0.01, os.kill, (hub, signal.SIGKILL)).start()
        seconds = 0.04 if number % 40 in (20, 21) else 0
        assert fnb.get(tracing.mark.remote(number, seconds), timeout=60) == number
    runs = Counter(trace.read_text().split())
    del runs["-1"]
    assert begun
    assert runs == Counter(map(str, range(120)))
