"""Cells run by what has no live view: `jupyter execute`, papermill, and IPython in a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pexpect
import pytest

from tests.notebook.kernel import PATIENCE_S, check_nothing_is_left
from tests.notebook.marks import mark, wait_for_marks

ROOT = Path(__file__).parents[2]
TELL = """
from fibernb.notebook.view import WidgetView
import pathlib
def tell_of_the_view(show=WidgetView.show):
    def showing(view, snapshot):
        show(view, snapshot)
        pathlib.Path("shown").touch()
    return showing
WidgetView.show = tell_of_the_view()"""
"""Has the notebook leave a file when a live view has been shown."""

SLOW_CELL = """%%parallel
import pathlib, time
while not pathlib.Path("shown").exists(): time.sleep(0.01)
print('ready')
rank * 10"""
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """An environment with directories of its own, in which this tree's package is found."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FIBERNB_RUNTIME_DIR": str(tmp_path / "run"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }


def notebook_of(path: Path, *sources: str, parameters: str = "") -> None:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    if parameters:
        cells.insert(0, nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    spec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec}), path)


def run(path: Path, variables: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of this environment beside the notebook."""
    line, place = [sys.executable, "-m", *command], path.parent
    return subprocess.run(line, cwd=place, env=variables, text=True, capture_output=True, timeout=100, check=False)


def outputs_of(path: Path) -> list[list[dict[str, Any]]]:
    """The outputs of every code cell of a notebook that was run."""
    cells = nbformat.read(path, as_version=4).cells
    return [cell.outputs for cell in cells if cell.cell_type == "code"]


def text_of(outputs: list[dict[str, Any]]) -> str:
    """All that a cell shows, as text."""
    return "\n".join(output["text"] if "text" in output else output["data"]["text/plain"] for output in outputs)


def check_static(outputs: list[dict[str, Any]]) -> None:
    """The cell shows its result, and its view has become something that any renderer shows."""
    assert [output for output in outputs if WIDGET in output.get("data", {})] == []
    (left,) = [output["data"] for output in outputs if output["output_type"] == "display_data"]
    assert left["text/plain"].startswith("✓ 2 of 2 ranks")
    assert left["text/html"].startswith("<div")
    assert text_of(outputs).endswith("[0-1] ready\n\n[0] 0\n[1] 10")


def test_jupyter_execute(tmp_path: Path, variables: dict[str, str]) -> None:
    path = tmp_path / "work.ipynb"
    failing = "%%parallel\nif rank == 1: raise ValueError('no luck')"
    load = f"%load_ext fibernb\n%fiber scale 2\n{TELL}"
    notebook_of(path, load, SLOW_CELL, failing, "%parallel rank", "%%time\n" + SLOW_CELL)
    done = run(path, variables, "jupyter", "execute", "--inplace", "--allow-errors", str(path))
    assert done.returncode == 0, done.stderr
    _, slow, failed, after, timed = outputs_of(path)
    check_static(slow)
    assert failed[-1]["ename"] == "ValueError"
    assert failed[-1]["evalue"] == "no luck"
    assert text_of(after) == "[0] 0\n[1] 1"
    assert text_of(timed).endswith("[0] 0\n[1] 10")
    check_nothing_is_left(tmp_path)


def test_papermill(tmp_path: Path, variables: dict[str, str]) -> None:
    path, done_path = tmp_path / "work.ipynb", tmp_path / "done.ipynb"
    scale = f"%load_ext fibernb\nget_ipython().run_line_magic('fiber', f'scale {{engines}}')\n{TELL}"
    notebook_of(path, scale, SLOW_CELL, "%parallel factor * size", parameters="engines, factor = 1, 1")
    options = ("-p", "engines", "2", "-p", "factor", "21", "--no-progress-bar")
    done = run(path, variables, "papermill", str(path), str(done_path), *options)
    assert done.returncode == 0, done.stderr
    *_, slow, values = outputs_of(done_path)
    check_static(slow)
    assert text_of(values) == "[0-1] 42"
    check_nothing_is_left(tmp_path)


def test_papermill_keeps_what_a_failed_cell_has_shown(tmp_path: Path, variables: dict[str, str]) -> None:
    path, done_path = tmp_path / "work.ipynb", tmp_path / "done.ipynb"
    notebook_of(path, "%load_ext fibernb\n%fiber scale 2", "%%parallel\nprint('kept')\n1 / rank", "'not reached'")
    done = run(path, variables, "papermill", str(path), str(done_path), "--no-progress-bar")
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stderr
    failed = next(outputs for outputs in outputs_of(done_path) if any("ename" in output for output in outputs))
    assert failed[0]["text"] == "[0-1] kept\n"
    check_nothing_is_left(tmp_path)


class Terminal:
    """IPython in a terminal, where somebody types."""

    def __init__(self, variables: dict[str, str], directory: Path) -> None:
        options = ["-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit", "--colors=nocolor"]
        self.child: Any = pexpect.spawn(
            sys.executable,
            options,
            env=variables,
            cwd=str(directory),
            encoding="utf-8",
            timeout=PATIENCE_S,
            dimensions=(50, 200),
        )
        self.wait_for_prompt()

    def wait_for_prompt(self) -> str:
        """What was shown until the next cell may be typed."""
        self.child.expect(r"In \[\d+\]: ")
        return str(self.child.before).replace("\r\n", "\n")

    def type(self, source: str) -> None:
        """Type a cell, and the empty lines that end one of several lines."""
        for line in [*source.splitlines(), *(["", ""] if "\n" in source else [])]:
            self.child.sendline(line)

    def run(self, source: str) -> str:
        """What a cell shows, after what was typed."""
        self.type(source)
        return self.wait_for_prompt()

    def wait_until_running(self, count: int) -> str:
        """What was shown until the line says that so many ranks run."""
        self.child.expect(f"{count} running")
        return str(self.child.before + self.child.after).replace("\r\n", "\n")


@pytest.fixture
def terminal(tmp_path: Path, variables: dict[str, str]) -> Iterator[Terminal]:
    started = Terminal(variables, tmp_path)
    started.run("%load_ext fibernb")
    assert "2 engines ready" in started.run("%fiber scale 2")
    yield started
    started.child.sendline("exit")
    started.child.expect(pexpect.EOF)
    started.child.close()
    check_nothing_is_left(tmp_path)


def test_cells_in_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type(SLOW_CELL)
    assert "▶ 0 of 2 ranks, 2 running" in terminal.wait_until_running(2)
    (tmp_path / "shown").touch()
    assert "[0-1] ready\nOut[3]: \n[0] 0\n[1] 10\n" in terminal.wait_for_prompt()
    assert "[0] 0\n[1] 10\n" in terminal.run("_")
    failed = terminal.run("%%parallel\nprint('before')\n{}['absent']")
    assert "[0-1] before\n" in failed
    assert "KeyError" in failed
    assert "on ranks 0-1 of 2" in failed
    assert "fibernb/" not in failed
    assert "Wall time" in terminal.run("%%time\n%%parallel\nrank")


def test_control_c_in_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type(f"%%parallel\nimport time\nprint('begun')\n{mark(tmp_path)}\nwhile True: time.sleep(0.01)")
    shown = terminal.wait_until_running(2)
    wait_for_marks(tmp_path, 2)
    terminal.child.sendintr()
    stopped = shown + terminal.wait_for_prompt()
    assert "[0-1] begun\n" in stopped
    assert "KeyboardInterrupt" in stopped
    assert "[0] 0\n[1] 1\n" in terminal.run("%parallel rank")


def test_handles_in_a_terminal(terminal: Terminal) -> None:
    assert "<cell on ranks 0-1: " in terminal.run("%%parallel -a handle\nimport time\ntime.sleep(0.5)\nrank + 5")
    assert "[0] 0\n[1] 1\n" in terminal.run("%parallel rank")
    assert "[0] 5\n[1] 6\n" in terminal.run("handle.result()")
    assert "[0] 5\n[1] 6\n" in terminal.run("await handle")
    terminal.run("%%parallel -a handle\nwhile True: time.sleep(0.01)")
    assert "1 background cell cancelled" in terminal.run("%fiber cancel")
    assert "TaskCancelled" in terminal.run("handle.result()")
