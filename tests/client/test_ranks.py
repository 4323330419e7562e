from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

import fibernb as fnb
from fibernb.client import failures
from fibernb.client.cells import CellResult, imports_of
from fibernb.client.cluster import Cluster
from fibernb.client.dialing import HubConnector
from fibernb.client.namespaces import join, parts
from fibernb.client.parcels import Parcel, parcel_of
from fibernb.client.selection import parse_ranks, select
from fibernb.client.session import Session, define
from fibernb.core import messages as m
from fibernb.errors import (
    CellTimeout,
    ClusterError,
    ConfigError,
    GetTimeout,
    RemoteTraceback,
    ScaleTimeout,
    TaskCancelled,
    WorkerDied,
)
from fibernb.model import Result
from fibernb.serialize import Apart
from tests.client.fake_hub import FakeConnector, FakeHub, FakeStore
from tests.client.test_session import wait_until


@pytest.fixture
def cluster(session: Session, connector: FakeConnector) -> Iterator[Cluster]:
    session.status()  # so that the number of seats has come
    return cast(Iterator[Cluster], Cluster(session, cast(HubConnector, connector), owned=True))


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("0", [0]),
        ("0,3", [0, 3]),
        ("3, 0, 3", [3, 0]),
        ("1:3", [1, 2]),
        ("::2", [0, 2]),
        (":", [0, 1, 2, 3]),
        ("!0", [1, 2, 3]),
        ("!1:3", [0, 3]),
        ("-1", [3]),
        ("0,2:", [0, 2, 3]),
    ],
)
def test_ranks_by_text(text: str, ranks: list[int]) -> None:
    assert parse_ranks(text, 4) == ranks


@pytest.mark.parametrize("text", ["", "a", "1:2:3:4", "1-2", "4", "-5", "!9", "1,", "::0"])
def test_texts_that_name_no_ranks(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_ranks(text, 4)


def test_ranks_by_index() -> None:
    assert select(1, 4) == [1]
    assert select(-1, 4) == [3]
    assert select(slice(1, None), 4) == [1, 2, 3]
    assert select([0, 3], 4) == [0, 3]
    assert select(np.array([0, 2]), 4) == [0, 2]
    assert select("1:", 4) == [1, 2, 3]
    with pytest.raises(ConfigError, match="ranks are 0 to 3"):
        select(4, 4)
    with pytest.raises(ConfigError, match="no seats"):
        select(0, 0)
    with pytest.raises(TypeError):
        select(1.5, 4)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12])
def test_parts_are_those_of_numpy(count: int) -> None:
    values = np.arange(11.0)
    for ours, theirs in zip(parts(values, count), np.array_split(values, count), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(join(parts(values, count)), values)
    for kind in (list, tuple, range(11).__class__):
        sequence = range(11) if kind is range else kind(range(11))
        pieces = parts(sequence, count)
        assert all(type(piece) is kind for piece in pieces)
        assert join(pieces) == list(range(11))


def test_parts_of_what_is_no_sequence() -> None:
    assert parts(iter("abc"), 2) == [["a", "b"], ["c"]]
    assert parts(dict.fromkeys("ab").keys(), 2) == [["a"], ["b"]]
    with pytest.raises(TypeError, match="mapping cannot be cut into parts: scatter a list of its items"):
        parts({"a": 1, "b": 2}, 2)


def test_parts_of_pandas_are_joined_as_what_they_were() -> None:
    frame = pd.DataFrame({"a": range(5), "b": list("vwxyz")}, index=pd.Index(range(10, 15), name="key"))
    pd.testing.assert_frame_equal(join(parts(frame, 3)), frame)
    pd.testing.assert_series_equal(join(parts(frame["a"], 2)), frame["a"])
    assert join([frame["a"], [1]]) == [0, 1, 2, 3, 4, 1]


def test_push_pull_and_items(cluster: Cluster, hub: FakeHub) -> None:
    view = cluster.ranks[:]
    view.push({"a": 1, "b": [2]})
    assert view.pull("a") == [1, 1]
    assert view.pull(["a", "b"]) == [[1, [2]], [1, [2]]]
    view["c"] = 5
    assert view["c"] == [5, 5]
    cluster.ranks[-1]["c"] = 6
    assert cluster.pull("c") == [5, 6]
    assert cluster.pull("c", [1, 0]) == [6, 5]
    remembered = [(message.keys, message.ranks) for message in hub.of(m.Remember)]
    assert remembered == [(("name a",), None), (("name b",), None), (("name c",), None), (("name c",), [1])]


def parcels(session: Session, **values: object) -> dict[str, Parcel]:
    return {name: parcel_of(session, Apart(value)) for name, value in values.items()}


def test_large_names_go_to_the_store_and_stay_there_as_long_as_they_count(cluster: Cluster, hub: FakeHub) -> None:
    session = cluster.session
    session.store = FakeStore()
    cluster.view().leave_parcels(parcels(session, small=1, large=np.arange(1000.0)))
    small, large = hub_heard(hub, m.Remember, 2)
    (put,) = hub.of(m.PutObjects)
    assert (small.refs, large.refs) == ((), (put.objects[0].id,))
    assert len(large.args[0]) < 1000
    hub.break_links(fresh=True)
    wait_until(lambda: len(hub.of(m.PutObjects)) == 2)
    cluster.view([0]).leave_parcels(parcels(session, large=2))
    session.status()
    assert not hub.of(m.Release), "other ranks begin with it still"
    cluster.view().leave_parcels(parcels(session, large=3))
    wait_until(lambda: [message.objects for message in hub.of(m.Release)] == [[put.objects[0].id]])


def test_a_large_name_stays_while_it_is_on_its_way(cluster: Cluster, hub: FakeHub) -> None:
    session = cluster.session
    session.store = FakeStore()
    hub.hold = True
    handle = cluster.view().start_with_parcels(define(len), parcels(session, large=np.arange(1000.0)))
    gc.collect()
    session.status()
    assert not hub.of(m.Release)
    hub.release_held()
    assert handle.result() == [1, 1]
    wait_until(lambda: len(hub.of(m.Release)) == 1)


def hub_heard(hub: FakeHub, kind: type[m.Message], count: int) -> list[Any]:
    wait_until(lambda: len(hub.of(kind)) == count)
    return hub.of(kind)


def test_scatter_and_gather(cluster: Cluster, hub: FakeHub) -> None:
    values = np.arange(7)
    cluster.scatter("xs", values)
    assert [len(part) for part in cluster.pull("xs")] == [4, 3]
    np.testing.assert_array_equal(cluster.gather("xs"), values)
    cluster.ranks[:].scatter("ys", range(3))
    assert cluster.ranks[:].gather("ys") == [0, 1, 2]
    assert [(message.ranks, len(message.args)) for message in hub.of(m.Remember)] == [([0, 1], 2)] * 2


def test_run_and_apply(cluster: Cluster, hub: FakeHub) -> None:
    assert cluster.ranks[:].run("rank * 10") == [0, 10]
    assert cluster.ranks[:].apply(pow, 2, 3) == [8, 8]
    assert cluster.ranks[1].apply(int, "ff", base=16) == [255]
    assert cluster.ranks[:].apply(abs, cluster.session.put(-4)) == [4, 4]


def test_imports_are_repeated_on_new_engines(cluster: Cluster, hub: FakeHub) -> None:
    cluster.run_cell("import math\nfrom os import path as p").result()
    wait_until(
        lambda: [message.keys for message in hub.of(m.Remember)] == [("import math",), ("from os import path as p",)]
    )
    with pytest.raises(ImportError):
        cluster.run_cell("import nothing_of_that_name").result()
    cluster.session.status()
    assert len(hub.of(m.Remember)) == 2


def test_imports_of_cells_with_magics() -> None:
    assert imports_of("%matplotlib inline\nimport a\n!ls\nif x:\n    import b\nawait c()") == ["import a"]
    assert imports_of("this is ! no Python") == []


def test_cells(cluster: Cluster, hub: FakeHub) -> None:
    hub.hold = True
    handle = cluster.run_cell("rank + x", push={"x": b""}, filename="<cell 1>")
    assert handle.ranks == (0, 1)
    assert handle.states() == ["waiting", "waiting"]
    assert not handle.done()
    assert "waiting" in repr(handle)
    with pytest.raises(GetTimeout, match="ranks 0-1"):
        handle.result(0.01)
    assert not hub.of(m.Cancel), "it goes on"
    with pytest.raises(CellTimeout, match="ranks 0-1"):
        cluster.ranks[:].run("1", timeout=0.01)
    wait_until(lambda: hub.of(m.Cancel))


def test_what_was_cancelled_is_one_error_that_names_who_had_to_be_replaced() -> None:
    stopped, deaf = TaskCancelled("it was cancelled while it ran"), TaskCancelled("it was cancelled")
    deaf.engine_replaced = True
    error = failures.combined({0: stopped, 1: deaf, 2: stopped}, 4)
    assert error is stopped
    assert error.__notes__ == ["on ranks 0-2 of 4", "rank 1 did not stop and has a new engine"]
    assert failures.replacements("item", [1, 2, 5]) == "items 1-2, 5 did not stop and have new engines"
    assert failures.replacements("item", []) == ""


def stopped_at(*places: str) -> TaskCancelled:
    error = TaskCancelled("the task was cancelled while it ran")
    lines = "".join(f'  File "{place}", line {number}, in f\n    f()\n' for number, place in enumerate(places, 3))
    error.__cause__ = RemoteTraceback(f"Traceback (most recent call last):\n{lines}KeyboardInterrupt\n")
    return error


def test_who_was_stopped_tells_where_it_stood() -> None:
    in_library, in_module, before = stopped_at("In[2]", "In[4]", "/lib/x.py"), stopped_at("/m.py"), TaskCancelled("")
    deaf = TaskCancelled("it was cancelled")
    deaf.engine_replaced = True
    errors = {0: in_library, 1: in_module, 2: stopped_at("In[2]", "In[4]"), 3: before, 4: deaf, 5: ValueError()}
    assert failures.stops("rank", errors) == [
        "ranks 0, 2 stood at In[4], line 4; rank 1 stood at /m.py, line 3",
        "rank 4 did not stop and has a new engine",
    ]
    assert failures.stops("item", {0: before}) == []


def test_a_cell_whose_time_was_over_says_so() -> None:
    stopped, other = stopped_at("In[2]"), ValueError("one")
    assert failures.in_time("", stopped, "rank", {0: stopped}) is stopped
    assert failures.in_time("over", other, "rank", {0: stopped, 1: other}) is other
    over = failures.in_time("over", stopped, "rank", {0: stopped})
    assert isinstance(over, CellTimeout)
    assert (str(over), over.__notes__) == ("over", ["rank 0 stood at In[2], line 3"])


def test_handles_can_be_given_to_cancel(cluster: Cluster, hub: FakeHub) -> None:
    hub.hold = True
    handle = cluster.run_cell("rank")
    fnb.cancel(handle, force=True)
    wait_until(lambda: hub.of(m.Cancel) == [m.Cancel(tasks=[ref.id for ref in handle.refs], force=True)])
    with pytest.raises(TypeError, match="an ObjectRef or the handle of a cell, not int"):
        fnb.cancel(1)  # type: ignore[arg-type]


def test_cells_can_be_awaited(cluster: Cluster) -> None:
    async def main() -> CellResult:
        return await cluster.run_cell("rank")

    result = asyncio.run(main())
    assert result == [0, 1]
    assert result.ranks == (0, 1)


def test_failures_alike_are_one(cluster: Cluster) -> None:
    handle = cluster.run_cell("1 / 0")
    with pytest.raises(ZeroDivisionError) as caught:
        handle.result()
    assert caught.value.__notes__ == ["on ranks 0-1 of 2"]
    assert handle.states() == ["failed", "failed"]


def test_failures_of_several_kinds_are_a_group(cluster: Cluster) -> None:
    handle = cluster.run_cell("[1, 2][rank + 1] + (rank and int('x'))")
    with pytest.raises(IndexError):
        handle.result()
    assert handle.values() == {0: 2}
    handle = cluster.run_cell("1 / rank if not rank else int('x')")
    with pytest.raises(ExceptionGroup) as caught:
        handle.result()
    assert {type(error) for error in caught.value.exceptions} == {ZeroDivisionError, ValueError}
    assert set(handle.errors()) == {0, 1}


def test_deaths_of_the_same_manner_are_one() -> None:
    errors: dict[int, BaseException] = {rank: WorkerDied(rank, "here", -9) for rank in (1, 2, 5)}
    assert isinstance(failures.combined(dict(errors), 1), WorkerDied)
    errors[6] = ValueError("x")
    group = failures.combined(errors, 8)
    assert isinstance(group, ExceptionGroup)
    assert [error.__notes__ for error in group.exceptions] == [["on ranks 1-2, 5 of 8"], ["on rank 6 of 8"]]


def test_the_line_tells_failures_apart() -> None:
    def error(line: int) -> ValueError:
        failure = ValueError("x")
        failure.__cause__ = RemoteTraceback(f'Traceback\n  File "<cell>", line {line}, in <module>\nValueError: x')
        return failure

    assert isinstance(failures.combined({0: error(1), 1: error(1)}, 2), ValueError)
    assert isinstance(failures.combined({0: error(1), 1: error(2)}, 2), ExceptionGroup)
    assert not hasattr(failures.combined({0: error(1)}, 1), "__notes__")


def test_errors_whose_notes_are_none_are_combined() -> None:
    error = ValueError("bad")
    error.__notes__ = "abc"  # type: ignore[assignment]
    assert failures.combined({0: error}, 2) is error
    assert error.__notes__ == ["on rank 0 of 2"]


def test_views_are_live(cluster: Cluster, hub: FakeHub) -> None:
    view = cluster.ranks[1:]
    assert len(view) == 1
    cluster.scale(4)
    assert view.ranks == [1, 2, 3]
    assert len(cluster.ranks) == cluster.size == 4
    assert repr(view) == "<ranks 1:>"
    with pytest.raises(ConfigError, match="no rank 4"):
        _ = cluster.ranks[4]
    last = cluster.ranks[[3]]
    cluster.scale(1)
    with pytest.raises(ConfigError, match="ranks are 0 to 0"):
        last.pull("x")


def test_interrupt_and_restart(cluster: Cluster, hub: FakeHub) -> None:
    cluster.ranks[1].interrupt()
    cluster.restart()
    cluster.interrupt([0])
    cluster.session.status()
    assert [message.ranks for message in hub.of(m.InterruptRanks)] == [[1], [0]]
    assert hub.of(m.RestartSeats) == [m.RestartSeats(ranks=[0, 1])]


def test_nothing_runs_without_seats(cluster: Cluster, hub: FakeHub) -> None:
    cluster.scale(0)
    with pytest.raises(ConfigError, match="scale"):
        cluster.run_cell("1")


def test_scale(cluster: Cluster, hub: FakeHub) -> None:
    seen: list[int] = []
    cluster.scale(5, on_change=lambda seats: seen.append(seats.ready))
    assert seen == [5]
    cluster.scale(0)
    assert cluster.size == 0


def test_scale_checks_before_anything_starts(cluster: Cluster, hub: FakeHub) -> None:
    with pytest.raises(ClusterError, match="a test says so"):
        cluster.scale(65)
    for wrong in (-1, 1.5, True):
        with pytest.raises(ConfigError):
            cluster.scale(cast(int, wrong))
    assert not hub.of(m.Scale)


def test_scale_times_out_with_the_problem(cluster: Cluster, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(peer: int, message: m.Scale) -> None:
        hub.problem = "no room on this machine"
        hub.say(m.SeatsChanged(seats=9, ready=2, starting=7, problem=hub.problem))

    monkeypatch.setattr(hub, "_on_scale", stuck)
    with pytest.raises(ScaleTimeout, match="no room on this machine"):
        cluster.scale(9, timeout_s=0.05)
    cluster.scale(9, minimum=2, timeout_s=5)
    cluster.scale(9, wait=False)


def test_autoscale(cluster: Cluster, hub: FakeHub) -> None:
    cluster.autoscale(0, 8, idle_s=5)
    cluster.autoscale()
    cluster.session.status()
    assert hub.of(m.Autoscale) == [m.Autoscale(minimum=0, maximum=8, idle_s=5), m.Autoscale()]
    for bounds in ((-1, 2), (3, 2), (0, 0)):
        with pytest.raises(ConfigError):
            cluster.autoscale(*bounds)
    with pytest.raises(ClusterError, match="a test says so"):
        cluster.autoscale(0, 65)


def test_the_place_is_told_when_it_changes(cluster: Cluster, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_run", lambda *_: Result(0, b""))
    cluster.adopt("/tmp", ["/lib"])
    cluster.adopt("/tmp", ["/lib"])
    cluster.adopt("/tmp", ["/lib", "/more"], now=False)
    cluster.session.status()
    assert [message.keys for message in hub.of(m.Remember)] == [("place",)] * 2
    assert len(hub.of(m.SubmitPinned)) == 1


@pytest.mark.parametrize(("leave", "sent"), [("detach", m.Detach()), ("stop", m.Stop())])
def test_leaving(cluster: Cluster, hub: FakeHub, leave: str, sent: m.Message) -> None:
    getattr(cluster, leave)()
    wait_until(lambda: hub.of(m.Goodbye) == [m.Goodbye(stop=False)])
    assert hub.of(type(sent)) == [sent]
    assert "ended" in repr(cluster)


def test_the_owner_takes_its_cluster_along(cluster: Cluster, hub: FakeHub) -> None:
    with cluster:
        assert "2 of 2 seats" in repr(cluster)
    wait_until(lambda: hub.of(m.Goodbye) == [m.Goodbye(stop=True)])
