"""The hub's log does not grow without bound, and does not drown in repetitions."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fibernb.hub.logs import BoundedHandler, Sparingly, set_up


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger("fibernb.test")
    made.propagate = False
    yield made
    for handler in made.handlers[:]:
        made.removeHandler(handler)
        handler.close()


def test_a_full_log_starts_again_and_keeps_one_copy(
    tmp_path: Path, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hub.log"
    with path.open("a") as file:
        monkeypatch.setattr(sys, "stderr", file)
        logger.addHandler(BoundedHandler(path, max_bytes=1000))
        for number in range(100):
            logger.warning("line %d of the log", number)
        file.flush()
    kept = (tmp_path / "hub.log.1").read_text() + path.read_text()
    assert path.stat().st_size <= 1000
    assert kept.endswith("line 99 of the log\n")
    assert len(kept) > 1000


def test_a_log_that_has_gone_stops_nobody(tmp_path: Path) -> None:
    handler = BoundedHandler(tmp_path / "gone" / "hub.log")
    handler.emit(logging.LogRecord("x", logging.WARNING, "", 0, "text", None, None))


def test_set_up_takes_warnings_and_above(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        root.handlers = []
        set_up(tmp_path / "hub.log")
        logging.getLogger("fibernb").info("not this")
        logging.getLogger("fibernb").warning("but this")
    finally:
        root.handlers, root.level = before
    text = capsys.readouterr().err
    assert "WARNING but this" in text
    assert "not this" not in text


def test_sparingly(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    sparingly = Sparingly(logging.getLogger("sparingly"), clock=lambda: now)
    for _ in range(5):
        sparingly.warning("again")
    now = 2.0
    sparingly.warning("again")
    now = 4.0
    sparingly.warning("again")
    assert caplog.messages == ["again", "again (and 4 more)", "again"]
