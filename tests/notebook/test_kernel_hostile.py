"""What users' classes and cells may do to a kernel; the next cell runs, and tells the truth."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.notebook.kernel import Kernel, Reply, running_kernel

SIZE = 2


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("hostile")) as started:
        started.run(f"%fiber scale {SIZE}")
        started.run("import itertools, pathlib, time")
        yield started


def check_the_next_cell(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nprint('ready')\nrank")
    assert (reply.stream(), reply.result) == ("[0-1] ready\n", "[0] 0\n[1] 1")


def stopped(kernel: Kernel, source: str, mark: str) -> Reply:
    """What comes of a cell that is interrupted once it has printed a mark, however often that takes to be heard."""
    reply = kernel.start(source)
    kernel.wait_until(reply, lambda so_far: mark in so_far.stream())
    kernel.manager.interrupt_kernel()
    return kernel.finish(reply)


@pytest.mark.parametrize("error", ["ValueError('\\ud800')", "OSError(2, '\\ud800')", "ValueError('x' * 3_000_000)"])
def test_a_cell_ends_whatever_its_error_says(kernel: Kernel, error: str) -> None:
    failed = kernel.fail(f"%%parallel\nraise {error}")
    assert failed.error in ("ValueError", "FileNotFoundError")
    assert len(failed.text) < 200_000
    check_the_next_cell(kernel)


def test_a_stop_iteration_is_told_with_its_traceback(kernel: Kernel) -> None:
    failed = kernel.fail("%%parallel\nraise StopIteration(3)")
    (shown,) = failed.of("error")
    text = "\n".join(shown["traceback"])
    assert "StopIteration: 3" in text
    assert "on ranks 0-1 of 2" in text
    assert "await_cell" not in text
    check_the_next_cell(kernel)


def test_a_value_that_cannot_be_shown_leaves_no_mark_on_later_cells(kernel: Kernel) -> None:
    kernel.run("class Ends:\n    def __repr__(self): raise KeyboardInterrupt")
    assert kernel.run("%%parallel\nEnds()").result == "[0-1] <Ends whose repr was interrupted>"
    check_the_next_cell(kernel)
    assert kernel.fail("import asyncio\nawait asyncio.sleep(0)\nEnds()").error == "KeyboardInterrupt"
    check_the_next_cell(kernel)


def test_a_repr_that_hangs_is_stopped(kernel: Kernel) -> None:
    kernel.run("class Hangs:\n    def __repr__(self):\n        print('looked at', flush=True)\n        time.sleep(60)")
    reply = stopped(kernel, "%%parallel\nHangs()", "looked at")
    assert reply.status == "ok"
    assert reply.result == "[0-1] <Hangs whose repr was interrupted>"
    check_the_next_cell(kernel)


@pytest.mark.parametrize(
    "source",
    [
        "%%parallel --each x=(print('begun', flush=True) for _ in itertools.count())\nx",
        "%%parallel\nslow_to_send",
        "%%parallel\nSlowToArrive()",
    ],
    ids=["endless items", "slow to send", "slow to arrive"],
)
def test_what_holds_up_the_kernel_is_stopped(kernel: Kernel, source: str) -> None:
    kernel.run(
        "def wait():\n    print('begun', flush=True)\n    time.sleep(60)\n"
        "class SlowToSend:\n    def __reduce__(self): wait()\n"
        "class SlowToArrive:\n    def __reduce__(self): return wait, ()\n"
        "slow_to_send = SlowToSend()"
    )
    assert stopped(kernel, source, "begun").error == "KeyboardInterrupt"
    check_the_next_cell(kernel)


@pytest.mark.parametrize(
    "source",
    ["%fiber log -f", "%fiber scale 64", "import fibernb as fnb\nfnb.get(fnb.remote(time.sleep).remote(60))"],
    ids=["log", "scale", "get"],
)
def test_interrupts_that_follow_each_other_cost_no_reply(kernel: Kernel, source: str) -> None:
    reply = kernel.start(source)
    kernel.wait_until(reply, lambda so_far: so_far.of("execute_input"))
    time.sleep(0.3)  # so that it waits
    for _ in range(5):
        kernel.manager.interrupt_kernel()
    kernel.finish(reply)
    assert (reply.status, reply.error) in (("error", "KeyboardInterrupt"), ("ok", ""))
    kernel.run(f"%fiber scale {SIZE}")
    check_the_next_cell(kernel)


def test_output_comes_back_after_a_cell_that_has_redirected_it(kernel: Kernel) -> None:
    redirects = "import io, sys\nsys.stdout = io.StringIO()\nprint('away')\nsys.stdout = sys.__stdout__\nprint('back')"
    assert kernel.run(f"%%parallel\n{redirects}").stream() == "[0-1] back\n"
    kernel.run("%%parallel\nimport sys\ndel sys.stdout\nsys.stderr = None")
    check_the_next_cell(kernel)
