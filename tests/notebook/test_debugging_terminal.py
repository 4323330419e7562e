"""``%fiber debug`` in a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

PATIENCE_S = 30.0
PROMPT = r"In \[\d+\]: "
ROOT = Path(__file__).parents[2]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[pexpect.spawn[str]]:
    """An IPython with the magics and three engines, at its prompt."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "FIBERNB_RUNTIME_DIR": str(tmp_path / "run"),
        "FIBERNB_PROGRESS": "0",
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "TERM": "dumb",
        "NO_COLOR": "1",
    }
    words = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", "--no-confirm-exit"]
    started = pexpect.spawn(
        sys.executable, words, env=environment, cwd=str(tmp_path), encoding="utf-8", timeout=PATIENCE_S, echo=False
    )
    started.expect(PROMPT)
    for line in ("%load_ext fibernb", "%fiber scale 3"):
        run(started, line)
    yield started
    started.sendline("exit")
    started.expect(pexpect.EOF)
    started.close()


def run(terminal: pexpect.spawn[str], line: str) -> str:
    """What a line shows."""
    terminal.sendline(line)
    terminal.expect(PROMPT)
    return str(terminal.before)


def fail_on_two_ranks(terminal: pexpect.spawn[str]) -> str:
    run(terminal, "half = lambda a: 1 / (a - rank)")
    return run(terminal, "value = %parallel half(rank) if rank else 0")


def test_a_session(terminal: pexpect.spawn[str]) -> None:
    assert "ZeroDivisionError" in fail_on_two_ranks(terminal)
    terminal.sendline("%fiber debug")
    terminal.expect(r"\[1\] \(Pdb\) ")
    assert "the same on rank 2: %fiber debug 2" in terminal.before
    for line in ("p a + 40", "up", "down"):
        terminal.sendline(line)
        terminal.expect(r"\[1\] \(Pdb\) ")
        assert line != "p a + 40" or "41" in terminal.before
    assert "[0] 0" in run(terminal, "quit") + run(terminal, "%parallel rank")


def test_an_interrupt_at_the_prompt(terminal: pexpect.spawn[str]) -> None:
    fail_on_two_ranks(terminal)
    terminal.sendline("%fiber debug 2")
    terminal.expect(r"\[2\] \(Pdb\) ")
    terminal.sendintr()
    terminal.expect("KeyboardInterrupt")
    terminal.expect(PROMPT)
    assert "[2] 2" in run(terminal, "%parallel rank")


def test_the_end_of_input_ends_it(terminal: pexpect.spawn[str]) -> None:
    fail_on_two_ranks(terminal)
    terminal.sendline("%fiber debug")
    terminal.expect(r"\[1\] \(Pdb\) ")
    terminal.sendeof()
    terminal.expect(PROMPT)
    assert "[0] 0" in run(terminal, "%parallel rank")
