"""What of a command line belongs to ``fibernb run``, and what to the script."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import fibernb
from fibernb.cli import main
from fibernb.multiprocessing import ending


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `fibernb.init` is asked for; no cluster is started."""
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(fibernb, "init", lambda **options: calls.append(options))
    monkeypatch.setattr(fibernb, "shutdown", lambda: None)
    monkeypatch.setattr(ending, "end_processes", lambda: None)  # those of the tests are to live
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    return calls


@pytest.mark.parametrize(
    ("given", "options", "arguments"),
    [
        ("SCRIPT", {}, []),
        ("-n 8 SCRIPT a -n 5", {"workers": 8}, ["a", "-n", "5"]),
        ("SCRIPT -n 8 a", {"workers": 8}, ["a"]),
        ("SCRIPT -n8 --backend=local a -b x", {"workers": 8, "backend": "local"}, ["a", "-b", "x"]),
        ("-n 2 SCRIPT --workers=3 -b local", {"workers": 3, "backend": "local"}, []),
        ("SCRIPT --workers 3 -- -n 5", {"workers": 3}, ["-n", "5"]),
        ("SCRIPT -- -n 5 -- x", {}, ["-n", "5", "--", "x"]),
        ("SCRIPT -name x -n 5", {}, ["-name", "x", "-n", "5"]),
        ("SCRIPT --help", {}, ["--help"]),
    ],
)
def test_options_stand_on_either_side_of_the_script(
    asked: list[dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    given: str,
    options: dict[str, Any],
    arguments: list[str],
) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; print(*sys.argv, sep='|')")
    assert main(["run", *given.replace("SCRIPT", str(script)).split()]) == 0
    assert asked == [options]
    assert capsys.readouterr().out == "|".join([str(script), *arguments]) + "\n"


@pytest.mark.parametrize("given", ["-n many", "-n", "--workers="])
def test_what_is_no_number_of_seats(
    asked: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    script = tmp_path / "script.py"
    script.touch()
    with pytest.raises(SystemExit):
        main(["run", str(script), *given.split()])
    assert "argument -n/--workers" in capsys.readouterr().err
    assert not asked
