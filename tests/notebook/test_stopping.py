"""Stopping what runs: by its name, or by its ranks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebook.kernel import Kernel, running_kernel

FOREVER = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("stopping"), FIBERNB_PROGRESS="0") as started:
        started.run("%fiber scale 3\nimport time, fibernb as fnb")
        started.run("@fnb.remote\ndef turn():\n    while True: time.sleep(0.01)")
        yield started
        started.run("%fiber stop")


def wait_until(kernel: Kernel, expression: str) -> None:
    """Wait until an expression is true in the kernel."""
    kernel.run(f"while not ({expression}): time.sleep(0.02)")


def test_interrupting_some_ranks(kernel: Kernel) -> None:
    kernel.run(f"%%parallel -a h\n{FOREVER}")
    wait_until(kernel, "h.states() == ['running'] * 3")
    assert kernel.run("%fiber interrupt 0,2").stream().endswith("] on ranks 0, 2\n")
    wait_until(kernel, "h.states() == ['cancelled', 'running', 'cancelled']")
    assert kernel.run("%fiber interrupt 0").stream() == "nothing runs on rank 0\n"
    kernel.run("h.cancel()")
    assert kernel.fail("h.result()").error == "TaskCancelled"


def test_restarting_some_ranks(kernel: Kernel) -> None:
    kernel.run("%%parallel\nkept = rank")
    kernel.run("pushed = 5\nimport os")
    before = kernel.run("before = %parallel os.getpid(), pushed\nbefore[1]").result
    assert kernel.run("%fiber restart 0,2").stream() == "3 engines ready\n"
    kernel.run("after = %parallel os.getpid(), pushed")
    assert kernel.run("after[1]").result == before
    assert kernel.run("[old[0] == new[0] for old, new in zip(before, after)]").result == "[False, True, False]"
    assert kernel.run("%parallel 'kept' in globals()").result == "[0,2] False\n[1] True"


@pytest.mark.parametrize("line", ["%fiber restart 7", "%fiber interrupt 7", "%fiber interrupt x"])
def test_ranks_that_there_are_not(kernel: Kernel, line: str) -> None:
    assert kernel.fail(line).error == "ConfigError"


def test_cancelling_a_cell_by_its_handle(kernel: Kernel) -> None:
    kernel.run(f"%%parallel -w 0 -a one\n{FOREVER}")
    kernel.run(f"%%parallel -w 1 -a two\n{FOREVER}")
    assert kernel.run("%fiber cancel one").stream() == "one: 1 call cancelled\n"
    assert kernel.fail("one.result()").error == "TaskCancelled"
    assert kernel.run("two.done()").result == "False"
    assert kernel.run("%fiber cancel one").stream() == "one has ended already\n"
    assert kernel.run("%fiber cancel").stream() == "1 background cell cancelled\n"
    assert kernel.fail("two.result()").error == "TaskCancelled"


def test_cancelling_a_cell_by_its_number(kernel: Kernel) -> None:
    kernel.run(f"%%parallel -a\n{FOREVER}")
    number = kernel.run("max(Out)").result
    for called in (number, f"In[{number}]"):
        assert called in kernel.run(f"%fiber cancel {called}").stream()
    assert kernel.fail(f"Out[{number}].result()").error == "TaskCancelled"


def test_cancelling_items(kernel: Kernel) -> None:
    kernel.run("%%parallel --each x=range(9) -a items\nimport time\ntime.sleep(600)")
    assert kernel.run("%fiber cancel items").stream() == "items: 9 calls cancelled\n"
    assert kernel.fail("items.result()").error == "TaskCancelled"


def test_cancelling_tasks(kernel: Kernel) -> None:
    all_have_ended = "_ = fnb.wait(refs, num_returns=5)"  # `get` has raised what the first of them came to
    kernel.run("refs = [turn.remote() for _ in range(5)]")
    assert "tasks do: turn (%fiber cancel turn)" in kernel.run("%fiber cancel").stream()
    assert kernel.fail("%fiber cancel trn").text.endswith("nothing that is called 'trn' runs; did you mean 'turn'?")
    assert kernel.run("id = refs[4].hex()\n%fiber cancel {id}").stream().endswith(": 1 call cancelled\n")
    assert kernel.fail("fnb.get(refs[4])").error == "TaskCancelled"
    assert kernel.run("%fiber cancel refs").stream() == "refs: 4 calls cancelled\n"
    assert kernel.fail("fnb.get(refs)").error == "TaskCancelled"
    kernel.run(all_have_ended)
    kernel.run("refs = [turn.remote() for _ in range(5)]")
    assert kernel.run("%fiber cancel turn").stream() == "turn: 5 calls cancelled\n"
    assert kernel.fail("fnb.get(refs)").error == "TaskCancelled"
    kernel.run(all_have_ended)
    assert kernel.run("%fiber cancel").stream() == "no cell runs in the background\n"


def test_cancelling_what_there_is_not(kernel: Kernel) -> None:
    kernel.run("plain = 5\nempty = []")
    for called in ("plain", "empty", "nothing", "0xffff", "999999"):
        assert kernel.fail(f"%fiber cancel {called}").error == "UsageError"
