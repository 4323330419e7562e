"""Who gives names and takes locks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from fibernb.store import holders


def test_who_has_introduced_himself_is_known_until_he_is_taken(tmp_path: Path) -> None:
    assert list(holders.owners(tmp_path)) == []
    holders.introduce(str(tmp_path), "e7", "MainProcess")
    holders.introduce(str(tmp_path), "e7", "Process-1 (pid 4)")
    holders.introduce(str(tmp_path), "p9", "")
    assert sorted(holders.owners(tmp_path)) == ["e7", "p9"]
    assert holders.take_introduction(tmp_path, "e7") == "Process-1 (pid 4)"
    assert holders.take_introduction(tmp_path, "e7") is None
    assert holders.take_introduction(tmp_path, "p9") == ""


def test_engines_and_processes_of_one_number_are_different() -> None:
    engine, process = holders.owner_of_engine(7), holders.owner_of_process(7)
    assert (holders.is_process(engine), holders.is_process(process)) == (False, True)
    assert holders.token_of(engine) != holders.token_of(process)


def test_an_engine_lives_until_its_introduction_is_taken(tmp_path: Path) -> None:
    token = holders.token_of("e7")
    holders.introduce(str(tmp_path), "e7", "it")
    assert holders.lives(tmp_path, token)
    holders.take_introduction(tmp_path, "e7")
    assert not holders.lives(tmp_path, token)


def test_a_process_lives_as_the_system_says(tmp_path: Path) -> None:
    assert holders.lives(tmp_path, holders.token_of(holders.owner_of_process(os.getpid())))
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert not holders.lives(tmp_path, holders.token_of(holders.owner_of_process(ended.pid)))
