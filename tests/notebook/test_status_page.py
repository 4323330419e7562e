"""What %fiber shows."""

from xml.etree import ElementTree

import msgspec

from fibernb.core.messages import SeatStatus, Status
from fibernb.notebook.rows import ActorRow, EngineRow, ObjectRow
from fibernb.notebook.status_html import SEATS, as_html, headline
from fibernb.notebook.status_page import (
    MAX_RUNS,
    SEAT_STATES,
    About,
    actor_table,
    as_text,
    engine_table,
    object_table,
    runs,
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
        "",
        "more: %fiber ps, %fiber timeline, %fiber log, %fiber --help",
    ]


def test_seats_and_what_they_run() -> None:
    engines = [seat(rank, state="busy", task=9, function="train", busy_s=10.0 + rank) for rank in range(6)]
    engines += [seat(6), seat(7, state="starting"), seat(8, state="wanted"), seat(9, state="draining")]
    lines = as_text(status(engines, seats=10), ABOUT).splitlines()
    assert lines[2:4] == [
        "seats    [0-5] busy, [6] idle, [7] starting, [8] without an engine, [9] leaving",
        "runs     train on [0-5] for up to 15 s",
    ]


def test_seats_that_are_not_declared_any_more_are_leaving() -> None:
    engines = [seat(0), seat(1), seat(2, state="lost"), seat(3, state="draining"), seat(4, state="busy", task=1)]
    assert "seats    [0-1] idle, [2-4] leaving" in as_text(status(engines, seats=2), ABOUT)
    assert "seats    [0-1] idle, [2] lost, [3] leaving, [4] busy" in as_text(status(engines, seats=5), ABOUT)


def test_of_many_functions_the_longest_are_told() -> None:
    engines = [seat(rank, task=9, function=f"f{rank}", busy_s=rank) for rank in range(MAX_RUNS + 3)]
    told = runs(engines).splitlines()
    assert told[0] == f"f{MAX_RUNS + 2} on [{MAX_RUNS + 2}] for {MAX_RUNS + 2}.0 s"
    assert told[MAX_RUNS:] == ["3 more"]
    assert runs([seat(0, task=9)]) == "a task on [0] for 0.0 s"
    assert runs([]) == runs([seat(0, task=9, function="pushed names")]) == ""


def test_ranks_are_cut_where_they_are_many() -> None:
    engines = [seat(rank, task=9, function="f", state=["busy", "idle"][rank % 2]) for rank in range(2048)]
    lines = as_text(status(engines, seats=2048), ABOUT).splitlines()
    assert all(len(line) < 200 for line in lines)
    assert "… (1024)] busy" in lines[2]


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
    assert text.splitlines()[-5:-2] == [
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
    assert "<summary>1 engine</summary>" in page
    assert "&lt;f&gt; on [0] for 2.0 s" in page
    assert "<strong>problem</strong>\n&lt;b&gt;" in page
    assert "<strong>waiting for</strong>" not in page


def test_the_first_line_says_how_it_is() -> None:
    assert headline(status([])) == "3 of 4 engines ready, 1 busy, 12,345 tasks queued, up 1 min 15 s"
    assert headline(status([], seats=1, ready=1, queued=1)).startswith("1 engine ready, 1 busy, 1 task queued")


def test_every_seat_is_drawn_in_a_shape_of_its_state() -> None:
    assert list(SEATS.shapes) == list(SEATS.colours) == list(SEAT_STATES.values())
    assert len(set(SEATS.shapes.values())) == len(SEATS.shapes)
    engines = [seat(rank, state=state) for rank, state in enumerate([*SEAT_STATES, "something new"])]
    figure = ElementTree.fromstring(as_html(status(engines, seats=9), ABOUT))
    titles = [cell.attrib["title"] for cell in figure.iter("span") if "title" in cell.attrib]
    assert titles == [f"rank {rank}: {told}" for rank, told in enumerate([*SEAT_STATES.values(), "lost"])]
    assert "1 idle" in (text := "".join(figure.itertext()))
    assert "2 lost" in text


def test_a_thousand_seats_are_one_small_picture() -> None:
    page = as_html(status([seat(rank, state=["idle", "busy"][rank % 2]) for rank in range(1024)], seats=1024), ABOUT)
    assert len(page) < 50_000
    assert "512 idle" in page
    assert "… 924 more engines" in page


def test_no_engines() -> None:
    page = as_html(status([], seats=0, ready=0, busy=0), ABOUT)
    assert "0 engines ready" in page
    assert "<svg" not in page


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
