"""Processes of a notebook: what cells define, where output goes, what an interrupt does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.multiprocessing.conftest import wait_until
from tests.notebook.kernel import Kernel, running_kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("kernel"), FIBERNB_PROGRESS="0", FIBERNB_WORKERS="2") as started:
        started.run("import sys, time, fibernb.multiprocessing as mp")
        yield started


def test_functions_and_classes_of_cells_just_work(kernel: Kernel) -> None:
    kernel.run("factor = 3\ndef times(x): return factor * x")
    kernel.run("class Worker(mp.Process):\n    def run(self): print(self.name, times(2), __name__)")
    reply = kernel.run("w = Worker(name='w')\nw.start()\nw.join()\nw.exitcode")
    assert (reply.stream(), reply.result) == ("w 6 __main__\n", "0")
    kernel.run("factor = 5")
    assert kernel.run("p = mp.Process(target=lambda: print(times(2)))\np.start()\np.join()").stream() == "10\n"


def test_output_goes_to_the_cell_that_has_started_the_process(kernel: Kernel) -> None:
    first = kernel.run("def late():\n    time.sleep(1)\n    print('late')\np = mp.Process(target=late)\np.start()")
    second = kernel.run("print('second')\np.join()")
    kernel.messages_for(first, 0.5)
    assert second.stream() == "second\n"
    assert first.stream() == "late\n"


def test_errors_are_shown_in_the_cell(kernel: Kernel) -> None:
    reply = kernel.run("p = mp.Process(target=lambda: 1 / 0, name='P')\np.start()\np.join()\np.exitcode")
    assert reply.stream("stderr").startswith("Process P:\nTraceback")
    assert reply.result == "1"


def test_an_interrupt_reaches_the_processes_of_the_cell(kernel: Kernel, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    kernel.run("from pathlib import Path\ndef stay(path):\n    Path(path).touch()\n    time.sleep(600)")
    reply = kernel.start(f"p = mp.Process(target=stay, args=({str(begun)!r},))\np.start()\np.join()")
    wait_until(begun.exists)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(reply).error == "KeyboardInterrupt"
    assert kernel.run("p.join()\np.exitcode in (1, -2)").result == "True"
    assert kernel.run("mp.active_children()").result == "[]"
