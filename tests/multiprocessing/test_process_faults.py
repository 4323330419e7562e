"""Processes while the hub or the node dies, or the cluster ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

import fibernb as fnb
import fibernb.multiprocessing as mp
from fibernb.client.cluster import Cluster
from tests.multiprocessing.conftest import wait_until


def work(path: Path, code: int) -> None:
    """Live until there is a file of that name; each life leaves a trace of its own."""
    (path / f"begun {os.getpid()}").touch()
    wait_until((path / "go").exists, 60)
    print(f"done {code}")
    sys.exit(code)


def begin(path: Path, codes: range) -> list[mp.Process]:
    processes = [mp.Process(target=work, args=(path, code)) for code in codes]
    for process in processes:
        process.start()
    wait_until(lambda: len(list(path.glob("begun *"))) == len(codes))
    return processes


def join(processes: list[mp.Process]) -> list[int | None]:
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def test_processes_outlive_their_hub(own_cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    processes = begin(tmp_path, range(4))
    hub = own_cluster.status().pid
    os.kill(hub, signal.SIGKILL)
    assert own_cluster.status().pid != hub
    (tmp_path / "go").touch()
    assert join(processes) == [0, 1, 2, 3]
    assert len(list(tmp_path.glob("begun *"))) == 4, "none runs twice"
    assert sorted(capsys.readouterr().out.splitlines()) == [f"done {code}" for code in range(4)]


def test_processes_that_end_while_there_is_no_hub(own_cluster: Cluster, tmp_path: Path) -> None:
    processes = begin(tmp_path, range(4))
    os.kill(own_cluster.status().pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    assert join(processes) == [0, 1, 2, 3]
    assert len(list(tmp_path.glob("begun *"))) == 4, "none runs twice"


def test_signals_reach_processes_that_have_outlived_their_hub(own_cluster: Cluster, tmp_path: Path) -> None:
    processes = begin(tmp_path, range(2))
    os.kill(own_cluster.status().pid, signal.SIGKILL)
    processes[0].terminate()
    processes[1].kill()
    assert join(processes) == [-signal.SIGTERM, -signal.SIGKILL]


def test_processes_end_with_their_node(own_cluster: Cluster, tmp_path: Path) -> None:
    processes = begin(tmp_path, range(2))
    os.kill(own_cluster.connection.node_pid, signal.SIGKILL)
    assert join(processes) == [255, 255]


def test_processes_end_with_their_cluster(own_cluster: Cluster) -> None:
    process = mp.Process(target=time.sleep, args=(600,))
    process.start()
    fnb.shutdown()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    process.terminate()
    process.close()
