"""What %fiber shows."""

import msgspec

from fibernb.core.messages import SeatStatus, Status
from fibernb.notebook.rows import ActorRow, EngineRow, ObjectRow
from fibernb.notebook.status_page import (
    About,
    actor_table,
    as_html,
    as_text,
    engine_table,
    object_table,
    size,
    store_use,
    table,
)
from fibernb.wire.storetalk import Described

STORE = Described(
    request=1,
    arena_bytes=3_000_000_000,
    used_bytes=1_200_000_000,
    warm_bytes=0,
    spilled_bytes=400_000_000,
    spill_limit_bytes=20_000_000_000,
    blocks=14,
    pinned={"client 1": 2_000_000, "rank 3": 500_000_000},
)
ABOUT = About(name="blue", backend="local", memory_bytes=12_300_000)


def status(engines: list[SeatStatus], **changes: object) -> Status:
    values: dict[str, object] = {
        "request": 1, "seats": 4, "ready": 3, "busy": 1, "starting": 1, "waiting": 0, "queued": 12_345, "running": 1,
        "finished": 7, "failed": 0, "refused": 0, "engines": engines, "clients": 1, "pending": [], "uptime_s": 75.0,
        "node": "host",
    }  # fmt: skip
    return Status(**{**values, **changes})  # type: ignore[arg-type]


def seat(rank: int, **changes: object) -> SeatStatus:
    return SeatStatus(**{"rank": rank, "engine": rank + 1, "state": "idle", "pid": 100 + rank, **changes})  # type: ignore[arg-type]


def test_text() -> None:
    assert as_text(status([seat(0)]), ABOUT).splitlines() == [
        "cluster  blue (local, node host, up 1 min 15 s)",
        "engines  4 seats, 3 ready, 1 busy, 1 starting",
        "tasks    1 running, 12,345 queued, 7 finished",
        "memory   12.3 MB",
        "clients  1",
    ]


def test_what_is_unusual_is_told() -> None:
    engines = [seat(0, deaths=2), seat(1, deaths=2), seat(3, deaths=1), seat(4)]
    text = as_text(
        status(engines, pending=["no gpu", "queue full"], problem="fork failed", refused=2, failed=3, maximum=8),
        About(name="blue", backend="local"),
    )
    assert "deaths       5 ([3] 1 each, [0-1] 2 each)" in text
    assert "waiting for  no gpu\n             queue full" in text
    assert "problem      fork failed" in text
    assert "refused      2 messages" in text
    assert "3 failed" in text
    assert "autoscaling 0 to 8" in text
    assert "memory" not in text


def test_actors_and_objects_are_told() -> None:
    about = ABOUT._replace(
        actors=[
            ActorRow(class_name="Counter", name="c", state="ALIVE", pid=9, running=1, queued=3),
            ActorRow(class_name="Server", state="RESTARTING", restarts=2, ended="was killed"),
        ],
        beside=[EngineRow(rank=-2, actor_id="0x1", state="busy"), EngineRow(rank=-3, state="idle")],
        objects=[
            ObjectRow(made_by="load", size_bytes=2_000_000, holders=["client 1"], uses=1),
            ObjectRow(state="LOST", holders=[f"rank {rank}" for rank in range(7)], uses=2),
        ],
        store=STORE,
    )
    text = as_text(status([seat(0)], objects=1234), about)
    assert "actors            1 alive, 1 restarting" in text
    assert "beside the seats  2 engines: 1 with actors, 1 idle" in text
    assert "objects           1,234 kept" in text
    assert "object store      1.2 GB of 3 GB in 14 blocks, 400 MB of 20 GB spilled to disk" in text
    assert "                  in use: rank 3 500 MB, client 1 2 MB" in text
    assert "Counter  c     alive       9    1        3" in text
    assert text.splitlines()[-3:] == [
        "size  made by  held by",
        "2 MB  load     client 1, 1 task or value",
        "lost  a task   rank 0, rank 1, rank 2, rank 3, rank 4, 2 more, 2 tasks or values",
    ]
    page = as_html(status([seat(0)]), about)
    assert "<summary>actors</summary>" in page
    assert "<summary>largest objects</summary>" in page
    assert "extra 3  idle" in page


def test_an_engine_beside_the_seats() -> None:
    about = ABOUT._replace(beside=[EngineRow(rank=-2, state="busy", function="f", busy_s=2.0, pid=3, deaths=1)])
    assert "beside the seats  1 engine: 1 busy" in as_text(status([]), about)
    assert engine_table([], about.beside).splitlines()[1].split() == ["extra", "2", "busy", "3", "f", "2.0", "s", "1"]


def test_a_store_that_nobody_uses_now() -> None:
    assert store_use(msgspec.structs.replace(STORE, spilled_bytes=0, pinned={"rank 0": 0})) == (
        "1.2 GB of 3 GB in 14 blocks"
    )


def test_tables_of_nothing() -> None:
    assert actor_table([]) == "no actors"
    assert object_table([]) == "no objects"


def test_html() -> None:
    page = as_html(status([seat(0, function="<f>", task=1, state="busy", busy_s=2.0)], problem="<b>"), ABOUT)
    assert "&lt;b&gt;" in page
    assert "&lt;f&gt;" in page
    assert "<b>" not in page
    assert "<summary>1 engines</summary>" in page


def test_engine_table() -> None:
    assert engine_table([]) == "no engines"
    lines = engine_table([seat(0), seat(1, state="busy", task=5, function="f", busy_s=1.5, queued=3)]).splitlines()
    assert lines[0].split() == ["rank", "state", "pid", "runs", "for", "queued", "deaths"]
    assert lines[1].split() == ["0", "idle", "100"]
    assert lines[2].split() == ["1", "busy", "101", "f", "1.5", "s", "3"]
    assert engine_table([seat(rank) for rank in range(256)]).endswith("… 156 more engines")


def test_table_and_size() -> None:
    assert table([("a", "1"), ("bcd", "2")]) == "a    1\nbcd  2"
    assert [size(amount) for amount in (999, 1500, 3.4e9, 2e12)] == ["999 B", "1.5 kB", "3.4 GB", "2 TB"]
