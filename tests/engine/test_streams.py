"""Where output goes besides the reporter."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from fibernb.engine import streams
from fibernb.engine.reporter import Reporter
from fibernb.engine.streams import LogFile, NativeOutput, TaskStream, restore_streams


@pytest.fixture
def reporter() -> Reporter:
    return Reporter(lambda: 1, lambda _: None)


def test_lines_are_in_the_log_as_soon_as_they_are_whole(tmp_path: Path, reporter: Reporter) -> None:
    path = tmp_path / "log"
    log = LogFile()
    log.open(str(path))
    stream = TaskStream("stdout", 1, reporter, log)
    print("a", 1, file=stream)
    assert path.read_text() == "a 1\n"
    stream.write("partial")
    assert path.read_text() == "a 1\n"
    log.flush()
    assert path.read_text() == "a 1\npartial"


def test_a_log_that_cannot_be_written_is_no_error(tmp_path: Path, reporter: Reporter) -> None:
    log = LogFile()
    log.open(str(tmp_path / "missing" / "log"))
    stream = TaskStream("stderr", 2, reporter, log)
    print("still here", file=stream)
    log.open("/dev/full")
    print("and here", file=stream)
    assert [said.text for said in reporter.take() if hasattr(said, "text")] == ["still here\nand here\n"]


def test_a_stream_is_what_libraries_expect(reporter: Reporter) -> None:
    stream = TaskStream("stdout", 1, reporter, LogFile())
    assert stream.write("") == 0
    assert stream.write("abc") == 3
    assert (stream.fileno(), stream.isatty(), stream.writable(), stream.encoding) == (1, False, True, "utf-8")
    stream.flush()
    stream.reconfigure(encoding="utf-8", line_buffering=True)
    stream.close()
    assert not stream.closed
    with pytest.raises(TypeError, match="must be str, not bytes"):
        stream.write(b"x")  # type: ignore[arg-type]


def test_native_output_is_read_from_where_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "native"
    path.write_bytes(b"of an earlier engine\n")
    native = NativeOutput()
    assert native.read() == ""
    native.open(str(path))
    assert native.read() == ""
    with path.open("ab") as file:
        file.write("grün".encode()[:3])
        file.flush()
        assert native.read() == "gr"
        file.write("grün".encode()[3:] + b"\xff")
    assert native.read() == "ün\N{REPLACEMENT CHARACTER}"
    native.open(str(tmp_path / "missing"))
    assert native.read() == ""


def test_a_log_is_rotated_before_it_fills_the_disk(
    tmp_path: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_LOG_BYTES", 20)
    path = tmp_path / "log"
    log = LogFile()
    log.open(str(path))
    stream = TaskStream("stdout", 1, reporter, log)
    for number in range(7):
        print("line", number, file=stream)
    assert (tmp_path / "log.1").read_text() == "line 3\nline 4\nline 5\n"
    assert path.read_text() == "line 6\n"


def test_a_native_log_is_rotated_under_those_who_write_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_LOG_BYTES", 10)
    path = tmp_path / "native"
    native = NativeOutput()
    with path.open("ab", buffering=0) as file:
        native.open(str(path))
        file.write(b"0123456789")
        assert native.read() == "0123456789"
        assert (tmp_path / "native.1").read_bytes() == b"0123456789"
        file.write(b"abc")
        assert native.read() == "abc"
        assert path.read_bytes() == b"abc"


def test_what_was_taken_out_of_sys_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    replacement = io.StringIO()
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", replacement)
    restore_streams()
    assert sys.stdout is sys.__stdout__
    assert sys.stderr is replacement
    monkeypatch.delattr(sys, "stdout")
    restore_streams()
    assert sys.stdout is sys.__stdout__
