"""Cells and views of ranks on real engines."""

from __future__ import annotations

import asyncio
import os
import time

import numpy as np
import pytest

from fibernb.client.cluster import Cluster
from fibernb.core.messages import Output, Said
from fibernb.errors import (
    CellTimeout,
    ClusterError,
    GetTimeout,
    RemoteTraceback,
    ScaleTimeout,
    TaskCancelled,
    WorkerDied,
)
from tests.integration.conftest import wait_until


def test_names(cluster: Cluster) -> None:
    view = cluster.ranks[:]
    view.push({"a": 1, "xs": np.arange(4)})
    view["b"] = "text"
    assert view["b"] == ["text", "text"]
    assert view.pull(["a", "b"]) == [[1, "text"]] * 2
    cluster.ranks[1]["a"] = 2
    assert view["a"] == [1, 2]
    view.run("a += rank\nxs[0] = 9")
    assert view["a"] == [1, 3]
    assert [xs.tolist() for xs in view["xs"]] == [[9, 1, 2, 3]] * 2
    with pytest.raises(NameError, match="missing"):
        view.pull("missing")


def test_scatter_and_gather(cluster: Cluster) -> None:
    cluster.scatter("part", np.arange(11))
    assert cluster.ranks[:].run("len(part)") == [6, 5]
    np.testing.assert_array_equal(cluster.gather("part"), np.arange(11))
    cluster.scatter("part", list("abcde"))
    assert cluster.gather("part") == list("abcde")


def test_cells(cluster: Cluster) -> None:
    said: list[Said] = []
    handle = cluster.run_cell(
        "print('hello', rank)\nimport math\nmath.floor(rank + 0.5), size, ranks", on_output=said.append
    )
    assert handle.result() == [(0, 2, (0, 1)), (1, 2, (0, 1))]
    texts = ["".join(part.text for part in said if isinstance(part, Output) and part.rank == rank) for rank in (0, 1)]
    assert texts == ["hello 0\n", "hello 1\n"]
    assert handle.states() == ["done", "done"]
    assert cluster.ranks[:].run("x = 5") == [None, None]


def test_apply(cluster: Cluster) -> None:
    def where(offset: int, *, factor: int = 1) -> int:
        import fibernb

        return offset + factor * fibernb.rank()

    assert cluster.ranks[:].apply(where, 10, factor=2) == [10, 12]
    assert cluster.ranks[-1].apply(where, 0) == [1]


def test_failures(cluster: Cluster) -> None:
    handle = cluster.run_cell("values = [1]\nvalues[5]")
    with pytest.raises(IndexError) as caught:
        handle.result()
    assert caught.value.__notes__ == ["on ranks 0-1 of 2"]
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    handle = cluster.run_cell("1 // rank")
    with pytest.raises(ZeroDivisionError):
        handle.result()
    assert handle.values() == {1: 1}
    with pytest.raises(ExceptionGroup):
        cluster.run_cell("int('x') if rank else 1 / 0").result()
    with pytest.raises(SyntaxError):
        cluster.run_cell("this is no Python").result()


def test_time_limits_and_cancel(cluster: Cluster) -> None:
    handle = cluster.run_cell("import time\ntime.sleep(60)")
    wait_until(lambda: handle.states() == ["running", "running"])
    begun = time.monotonic()
    with pytest.raises(GetTimeout):
        handle.result(0.1)
    handle.cancel()
    assert handle.wait(30)
    assert time.monotonic() - begun < 10
    assert all(isinstance(error, TaskCancelled) for error in handle.errors().values())
    handle = cluster.run_cell("time.sleep(60)", [1], filename="In[7]")
    wait_until(lambda: handle.states() == ["running"])
    later = cluster.run_cell("rank")
    wait_until(lambda: later.states() == ["done", "waiting"] and later.waits_for() == ["In[7]"])
    cluster.interrupt([1])
    assert handle.wait(30)
    with pytest.raises(CellTimeout):
        cluster.ranks[:].run("time.sleep(60)", timeout=0.1)
    assert cluster.ranks[:].run("rank") == [0, 1]


def test_cells_can_be_awaited(cluster: Cluster) -> None:
    async def main() -> list[int]:
        return await cluster.run_cell("import asyncio\nawait asyncio.sleep(0.01)\nrank")

    assert asyncio.run(main()) == [0, 1]


def test_a_replaced_engine_gets_the_namespace_again(cluster: Cluster) -> None:
    view = cluster.ranks[:]
    view.push({"kept": [1, 2]})
    cluster.scatter("piece", range(4))
    view.run("import fractions as fr")
    before = view.apply(os.getpid)
    handle = cluster.run_cell("import os\nos._exit(4) if rank == 1 else 'alive'")
    with pytest.raises(WorkerDied) as caught:
        handle.result()
    assert (caught.value.rank, caught.value.exit_code) == (1, 4)
    assert handle.values() == {0: "alive"}
    assert handle.states() == ["done", "lost"]
    assert view.run("kept, list(piece), fr.Fraction(1, 2) * 2 == 1") == [([1, 2], [0, 1], True), ([1, 2], [2, 3], True)]
    after = view.apply(os.getpid)
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_restart(cluster: Cluster) -> None:
    view = cluster.ranks[:]
    view.push({"kept": 1})
    view.run("lost = 2")
    before = view.apply(os.getpid)
    view.restart()
    assert view["kept"] == [1, 1]
    assert not set(view.apply(os.getpid)) & set(before)
    with pytest.raises(NameError):
        view.pull("lost")


def test_scaling(cluster: Cluster) -> None:
    cluster.ranks[:].push({"everywhere": 7})
    seen: list[int] = []
    cluster.scale(4, timeout_s=60, on_change=lambda seats: seen.append(seats.ready))
    assert seen[-1] == 4
    assert cluster.ranks[:].run("everywhere, rank, size") == [(7, rank, 4) for rank in range(4)]
    cluster.scale(4)
    cluster.scale(2)
    wait_until(lambda: len(cluster.status().engines) == 2)
    assert cluster.size == 2
    with pytest.raises(ClusterError, match="more than the"):
        cluster.scale(10_000_000)
    assert cluster.size == 2


def test_engines_work_where_this_process_does(cluster: Cluster) -> None:
    assert cluster.ranks[:].apply(os.getcwd) == [os.getcwd()] * 2


def test_scale_time_limit(cluster: Cluster) -> None:
    with pytest.raises(ScaleTimeout, match="of 60 seats"):
        cluster.scale(60, timeout_s=0)
    cluster.scale(2)
    wait_until(lambda: len(cluster.status().engines) == 2)
