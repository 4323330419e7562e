"""Every way to stop a cell stops all that it has started, and the next cell tells the truth."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.notebook.kernel import PATIENCE_S, Kernel, Reply, running_kernel
from tests.notebook.marks import HOUR_S, mark, time_runs_out_at_marks, wait_for_marks, wait_until_none_beats

SIZE = 4
CELL_RANKS = "0,1"
DEAF = """
import ctypes
print('begun', flush=True)
while True:
    try:
        {mark}
        ctypes.PyDLL(None).sleep(60)  # holds the interpreter's lock
    except KeyboardInterrupt: pass"""
STUBBORN = """
import time
first = True
while True:
    try:
        if first: {mark}
        first = False
        time.sleep(60)
    except KeyboardInterrupt: pass"""

Stop = Callable[[Kernel, Reply], None]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("kernel")) as started:
        started.run(f"%fiber scale {SIZE}")
        started.run(
            "import time, fibernb as fnb\nfrom pathlib import Path\n"
            "def beat(name):\n    while True:\n        Path(name).write_text('x')\n        time.sleep(0.005)\n"
            "task = fnb.remote(beat)"
        )
        yield started


def press_stop(kernel: Kernel, reply: Reply) -> None:
    kernel.manager.interrupt_kernel()


def click_cancel(kernel: Kernel, reply: Reply) -> None:
    kernel.click(kernel.button(reply))


def run_verb(kernel: Kernel, reply: Reply) -> None:
    kernel.run("%fiber cancel")


def call_cancel(kernel: Kernel, reply: Reply) -> None:
    kernel.run("fnb.cancel(handle)")


def cancel_handle(kernel: Kernel, reply: Reply) -> None:
    kernel.run("handle.cancel()")


def check_the_next_cell(kernel: Kernel) -> None:
    assert kernel.run("%%parallel\nprint('ready')\nrank").result == "[0] 0\n[1] 1\n[2] 2\n[3] 3"


class Beats:
    """Files that are written again and again while something runs."""

    def __init__(self, directory: Path) -> None:
        self.prefix = str(directory / "beat-")
        self._paths = [directory / f"beat-{owner}-{rank}" for owner in ("cell", "task") for rank in (0, 1)]

    def body(self) -> str:
        """Of a cell: each rank beats, and so does a task that it has submitted."""
        return f"ref = task.remote({self.prefix!r} + f'task-{{rank}}')\nbeat({self.prefix!r} + f'cell-{{rank}}')"

    def wait_until_all_beat(self) -> None:
        end = time.monotonic() + PATIENCE_S
        while not all(path.exists() for path in self._paths):
            assert time.monotonic() < end, [path for path in self._paths if not path.exists()]
            time.sleep(0.01)

    def wait_until_none_beats(self) -> None:
        """Until nobody has written for a while."""
        wait_until_none_beats(self._paths)


@pytest.mark.parametrize(
    ("stop", "error"), [(press_stop, "KeyboardInterrupt"), (click_cancel, "TaskCancelled")], ids=["stop", "button"]
)
def test_a_running_cell_stops_with_its_tasks(kernel: Kernel, tmp_path: Path, stop: Stop, error: str) -> None:
    beats = Beats(tmp_path)
    reply = kernel.start(f"%%parallel -w {CELL_RANKS}\n{beats.body()}")
    beats.wait_until_all_beat()
    stop(kernel, reply)
    assert kernel.finish(reply).error == error
    beats.wait_until_none_beats()
    check_the_next_cell(kernel)


@pytest.mark.parametrize("stop", [run_verb, call_cancel, cancel_handle, click_cancel])
def test_a_background_cell_stops_with_its_tasks(kernel: Kernel, tmp_path: Path, stop: Stop) -> None:
    beats = Beats(tmp_path)
    reply = kernel.run(f"%%parallel -w {CELL_RANKS} -a handle\n{beats.body()}")
    beats.wait_until_all_beat()
    stop(kernel, reply)
    assert kernel.fail("handle.result()").error == "TaskCancelled"
    assert kernel.run("handle").result == "<cell on ranks 0-1: 2 cancelled>"
    beats.wait_until_none_beats()
    check_the_next_cell(kernel)


@pytest.mark.parametrize("body", [DEAF, STUBBORN], ids=["C code", "ignores it"])
def test_what_does_not_stop_is_replaced_by_any_way(kernel: Kernel, tmp_path: Path, body: str) -> None:
    kernel.run(f"%%parallel -w {CELL_RANKS} -a handle\n{body.format(mark=mark(tmp_path))}")
    wait_for_marks(tmp_path, 2)
    kernel.run("fnb.cancel(handle)")
    failed = kernel.fail("handle.result()")
    assert failed.error == "TaskCancelled"
    assert "ranks 0-1 did not stop and have new engines" in "\n".join(failed.of("error")[0]["traceback"])
    assert kernel.run("handle").result == "<cell on ranks 0-1: 2 replaced>"
    check_the_next_cell(kernel)


def test_a_second_cancel_replaces_at_once(kernel: Kernel, tmp_path: Path) -> None:
    pids = kernel.run("import os\n%parallel os.getpid()").result
    kernel.run(f"%%parallel -w {CELL_RANKS} -a handle\n{DEAF.format(mark=mark(tmp_path))}")
    wait_for_marks(tmp_path, 2)
    assert kernel.run("handle.cancel()\nhandle.cancel()\nhandle.done()").status == "ok"
    assert kernel.fail("handle.result()").error == "TaskCancelled"
    after = kernel.run("%parallel os.getpid()").result
    assert after.splitlines()[2:] == pids.splitlines()[2:]  # who had nothing to do with it is still there
    assert not set(after.splitlines()[:2]) & set(pids.splitlines())


def test_time_that_runs_out_says_who_was_replaced(kernel: Kernel, tmp_path: Path) -> None:
    body = DEAF.format(mark=mark(tmp_path)).replace("\n", "\n    ")
    with time_runs_out_at_marks(kernel, tmp_path, 1):
        failed = kernel.fail(f"%%parallel --timeout {HOUR_S}\nif rank == 2:\n    {body}")
    assert failed.error == "CellTimeout"
    assert "rank 2 did not stop and has a new engine" in "\n".join(failed.of("error")[0]["traceback"])
    check_the_next_cell(kernel)


def test_items_stop_as_ranks_do(kernel: Kernel, tmp_path: Path) -> None:
    beats = Beats(tmp_path)
    name = f"{beats.prefix!r} + f'{{kind}}-{{number}}'"
    items = "[('cell', 0), ('cell', 1), ('task', 0), ('task', 1)]"
    reply = kernel.start(f"%%parallel --each item={items}\nkind, number = item\nbeat({name})")
    beats.wait_until_all_beat()
    click_cancel(kernel, reply)
    assert kernel.finish(reply).error == "TaskCancelled"
    beats.wait_until_none_beats()
    check_the_next_cell(kernel)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL])
def test_a_deadly_signal_hits_its_rank_only(kernel: Kernel, number: signal.Signals) -> None:
    source = (
        f"import os, signal, time\nif rank == 1:\n    os.kill(os.getpid(), {int(number)})\n    time.sleep(60)\nrank"
    )
    failed = kernel.fail(f"%%parallel --into values\nprint('begun', flush=True)\n{source}")
    assert failed.stream() in ("[0,2-3] begun\n", "[0-3] begun\n")  # what the dead one printed may have come as well
    assert failed.error == "WorkerDied"
    assert number.name in failed.text
    assert "\nbegun" in failed.text
    check_the_next_cell(kernel)


def test_interrupts_between_cells_change_nothing(kernel: Kernel) -> None:
    for _ in range(3):
        kernel.manager.interrupt_kernel()
    check_the_next_cell(kernel)


def test_a_storm_of_interrupts(kernel: Kernel) -> None:
    for _ in range(3):
        reply = kernel.start("%%parallel\nimport time\nwhile True: time.sleep(0.01)")
        kernel.wait_for_view(reply)
        for _ in range(8):
            kernel.manager.interrupt_kernel()
            time.sleep(0.01)
        assert kernel.finish(reply).error == "KeyboardInterrupt"
        check_the_next_cell(kernel)
