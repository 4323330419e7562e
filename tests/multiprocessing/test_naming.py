"""Nothing that a cluster has by name stays when it ends, whoever is killed."""

from __future__ import annotations

import os
import signal
from typing import Any

import psutil

import fibernb as fnb
import fibernb.multiprocessing as multiprocessing
from fibernb import config
from fibernb.client.cluster import Cluster
from fibernb.hub.connection import list_connections
from fibernb.store import names
from tests.multiprocessing.conftest import Place, wait_until

SCRIPT = """
import os, sys, time
import fibernb as fnb, fibernb.multiprocessing as multiprocessing
from fibernb.store import names
cluster = fnb.init(workers=1, lease_s=1)
locks = [multiprocessing.Lock() for _ in range(3)]
fnb.get(fnb.remote(lambda locks: len(locks)).remote(locks))
print(names.prefix_of(cluster.directory), cluster.connection.pid, cluster.connection.node_pid, flush=True)
time.sleep(600)
"""


def files(prefix: str) -> list[str]:
    return [entry.name for entry in names.semaphore_files(prefix)]


def test_the_end_of_a_cluster_takes_all_names_away(own_cluster: Cluster) -> None:
    prefix = names.prefix_of(own_cluster.directory)
    event = multiprocessing.Event()

    @fnb.remote
    def keep(event: Any) -> int:
        globals()["kept"] = event, multiprocessing.Lock()
        return os.getpid()

    pid = fnb.get(keep.remote(event))
    os.kill(pid, signal.SIGKILL)
    assert list(names.semaphore_files(prefix))
    fnb.shutdown()
    wait_until(lambda: not list(names.semaphore_files(prefix)))


def test_a_cluster_whose_client_is_killed_leaves_no_names(place: Place) -> None:
    client = place.start(SCRIPT)
    assert client.stdout is not None
    prefix = client.stdout.readline().split()[0]
    assert files(prefix)
    client.kill()
    client.communicate()
    wait_until(lambda: not files(prefix), 60)


def test_the_names_of_a_cluster_that_was_killed_go_when_clusters_are_listed(place: Place) -> None:
    client = place.start(SCRIPT)
    assert client.stdout is not None
    prefix, hub, node = client.stdout.readline().split()
    processes = [psutil.Process(int(pid)) for pid in (node, hub)]
    client.kill()
    client.communicate()
    for process in processes:
        process.kill()
    assert files(prefix)

    def listed() -> bool:
        return not list_connections(config.load()) and not files(prefix)

    wait_until(listed, 60)
