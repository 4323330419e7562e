"""What %fiber shows."""

from fibernb.core.messages import SeatStatus, Status
from fibernb.notebook.status_page import About, as_html, as_text, engine_table, size, table

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
