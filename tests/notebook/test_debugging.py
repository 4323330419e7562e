"""``%fiber debug``: over a kernel's own input prompt, with a real cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fibernb.engine.postmortem_pdb import Failure
from fibernb.errors import NotConnected
from fibernb.notebook.debugging import choose
from tests.notebook.conftest import Notebook
from tests.notebook.dialogue import begin, talk
from tests.notebook.kernel import Kernel, running_kernel
from tests.notebook.marks import HOUR_S, mark, time_runs_out_at_marks, wait_for_marks
from tests.notebook.test_kernel_versions import VERSIONS, python_of

CELL = "%%parallel\ndef half(a):\n    b = a * 2\n    return 1 / (b - 2)\nif rank: half(1)"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("debug"), FIBERNB_PROGRESS="0") as started:
        started.run("%fiber scale 3")
        started.run(
            "import time, os, signal, fibernb as fnb\n@fnb.remote\ndef treble(i):\n    deep = i * 3\n"
            "    if i > 1:\n        raise ValueError(f'bad {i}')\n    return i"
        )
        yield started


@pytest.fixture
def fresh(kernel: Kernel) -> Kernel:
    """The same, with engines that know of no error."""
    kernel.run("%fiber restart")
    return kernel


def wait_for(path: Path) -> None:
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.01)


def test_without_an_error(fresh: Kernel) -> None:
    assert fresh.run("%fiber debug").stream().startswith("no engine has an error to debug")
    assert fresh.run("%fiber debug 1").stream() == "rank 1 has no error to debug\n"
    assert fresh.fail("%fiber debug 0,1").text.startswith("%fiber debug looks at one rank at a time")
    assert fresh.fail("%fiber debug 9").error == "ConfigError"


def test_an_error_of_a_cell(fresh: Kernel) -> None:
    fresh.fail(CELL)
    reply = talk(fresh, "%fiber debug", ["p a, b", "up", "p rank", "down", "where", "list", "quit"])
    shown = reply.stream()
    assert "rank 1: ZeroDivisionError: division by zero (In[" in shown
    assert ", line 4, in half)\n" in shown
    assert "the same on rank 2: %fiber debug 2\n" in shown
    assert "-> return 1 / (b - 2)\n" in shown
    assert "\n(1, 2)\n" in shown
    assert "-> if rank: half(1)\n1\n" in shown
    assert "  4  ->\t    return 1 / (b - 2)\n" in shown
    assert "fibernb/" not in shown
    assert fresh.run("%%parallel\nrank").result == "[0] 0\n[1] 1\n[2] 2"


def test_the_prompt_names_the_rank(fresh: Kernel) -> None:
    fresh.fail(CELL)
    dialogue = begin(fresh, "%fiber debug 2")
    for line in ("for i in range(2):", "    print('line', i)", "", "q"):
        dialogue.answer(line)
    assert "line 0\nline 1\n" in dialogue.finish().stream()
    assert dialogue.prompts == ["[2] (Pdb) ", "[2] ...   ", "[2] ...   ", "[2] (Pdb) "]


def test_statements_run_in_the_frame(fresh: Kernel) -> None:
    fresh.fail(CELL)
    lines = ["!b = 10", "p b", "print(half(3));;p 'two'", "nothing", "p 1 +", "interact", "run", "break 3", "continue"]
    shown = talk(fresh, "%fiber debug", lines).stream()
    assert "10\n0.25\n'two'\n" in shown
    assert "NameError: name 'nothing' is not defined" in shown
    assert "SyntaxError" in shown
    assert shown.count("*** not after the end of a program") == 3


def test_an_error_of_a_task(fresh: Kernel) -> None:
    fresh.fail("fnb.get([treble.remote(i) for i in range(3)])")
    shown = talk(fresh, "%fiber debug", ["p deep, i", "q"]).stream()
    assert "ValueError: bad 2 (In[" in shown
    assert "-> raise ValueError(f'bad {i}')\n" in shown
    assert "(6, 2)\n" in shown
    assert "ipykernel_" not in shown


MEETING = """
import pathlib
@fnb.remote
def meet(here, there):
    pathlib.Path(here).touch()
    while not pathlib.Path(there).exists():
        time.sleep(0.01)
    raise ValueError(pathlib.Path(here).name)
"""


def test_of_several_errors_the_one_that_was_shown(fresh: Kernel, tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    fresh.fail(f"{MEETING}\nfnb.get([meet.remote({first!r}, {second!r}), meet.remote({second!r}, {first!r})])")
    shown = talk(fresh, "%fiber debug", ["q"]).stream()
    assert "ValueError: first (In[" in shown
    assert ": ValueError: second: %fiber debug " in shown
    assert "not there any more" not in shown


def test_an_error_that_another_has_replaced(fresh: Kernel) -> None:
    fresh.run("%fiber scale 1")
    fresh.fail("later = [treble.remote(2), treble.remote(3)]\nfnb.wait(later, num_returns=2)\nfnb.get(later)")
    shown = talk(fresh, "%fiber debug", ["q"]).stream()
    fresh.run("%fiber scale 3")
    assert "rank 0: ValueError: bad 3 (In[" in shown
    assert "the error shown last (ValueError: bad 2) is not there any more: its engine has had another" in shown


def test_an_error_of_an_item(fresh: Kernel) -> None:
    fresh.fail("%%parallel --each x=[1, 0]\ny = x + 5\n1 / x")
    assert "\n(0, 5)\n" in talk(fresh, "%fiber debug", ["p x, y", "q"]).stream()


def test_an_interrupted_cell_shows_where_it_was(fresh: Kernel, tmp_path: Path) -> None:
    loop = f"for turn in range(10**6):\n    {mark(tmp_path)}\n    time.sleep(0.01)"
    reply = fresh.start(f"%%parallel -w 0\n{loop}")
    wait_for_marks(tmp_path, 1)
    fresh.manager.interrupt_kernel()
    assert fresh.finish(reply).error == "KeyboardInterrupt"
    shown = talk(fresh, "%fiber debug", ["p turn >= 0", "q"]).stream()
    assert "rank 0: KeyboardInterrupt" in shown
    assert "True\n" in shown


def test_an_interrupt_at_the_prompt_ends_it(fresh: Kernel) -> None:
    fresh.fail(CELL)
    dialogue = begin(fresh, "%fiber debug")
    dialogue.wait_for_prompt()
    fresh.manager.interrupt_kernel()
    assert dialogue.finish().error == "KeyboardInterrupt"
    assert fresh.run("%%parallel\nrank").result == "[0] 0\n[1] 1\n[2] 2"
    assert "(1, 2)\n" in talk(fresh, "%fiber debug", ["p a, b", "q"]).stream()


def test_an_interrupt_stops_a_command(fresh: Kernel, tmp_path: Path) -> None:
    fresh.fail(CELL)
    begun = tmp_path / "begun"
    dialogue = begin(fresh, "%fiber debug")
    dialogue.answer(f"import time; open({str(begun)!r}, 'w').close(); time.sleep(600)")
    wait_for(begun)
    fresh.manager.interrupt_kernel()
    dialogue.answer("p a, b")
    dialogue.answer("q")
    shown = dialogue.finish().stream()
    assert "KeyboardInterrupt" in shown
    assert "\n(1, 2)\n" in shown


DEAF = """
while True:
    try:
        open({path!r}, 'w').close()
        ctypes.PyDLL(None).sleep(600)  # holds the GIL
    except KeyboardInterrupt:
        pass
"""


def test_interrupts_of_a_command_that_does_not_stop_replace_the_engine(fresh: Kernel, tmp_path: Path) -> None:
    fresh.fail(CELL)
    begun = tmp_path / "begun"
    dialogue = begin(fresh, "%fiber debug")
    dialogue.answer(f"import ctypes; exec({DEAF.format(path=str(begun))!r})")
    wait_for(begun)
    fresh.manager.interrupt_kernel()
    time.sleep(0.3)
    fresh.manager.interrupt_kernel()
    reply = dialogue.finish()
    assert reply.status == "ok"
    assert "with the old one went what there was to debug" in reply.stream()
    assert fresh.run("%%parallel\nrank").result == "[0] 0\n[1] 1\n[2] 2"


def test_the_engine_dies_meanwhile(fresh: Kernel) -> None:
    fresh.fail(CELL)
    dialogue = begin(fresh, "%fiber debug")
    dialogue.answer("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    reply = dialogue.finish()
    assert reply.status == "ok"
    assert "SIGKILL" in reply.stream()
    assert "with the old one went what there was to debug" in reply.stream()
    assert fresh.run("%%parallel\nrank").result == "[0] 0\n[1] 1\n[2] 2"
    assert "rank 1 has no error" in fresh.run("%fiber debug 1").stream()


def test_the_engine_is_replaced_between_commands(fresh: Kernel) -> None:
    fresh.fail(CELL)
    pid = fresh.run("pids = %parallel os.getpid()\npids[1]").result
    dialogue = begin(fresh, "%fiber debug")
    dialogue.wait_for_prompt()
    os.kill(int(pid), signal.SIGKILL)
    fresh.client.input("p a")
    reply = dialogue.finish()
    assert reply.status == "ok"
    assert "with the old one went what there was to debug" in reply.stream()


def test_the_others_go_on_meanwhile(fresh: Kernel) -> None:
    fresh.fail(CELL)
    fresh.run("%%parallel -w 0 -a busy\nfor _ in range(10**9): time.sleep(0.01)")
    shown = talk(fresh, "%fiber debug", ["p a", "q"]).stream()
    assert "busy, so not asked for an error: rank 0\n" in shown
    assert "\n1\n" in shown
    waiting = fresh.start("%fiber debug 0")
    fresh.wait_until(waiting, lambda so_far: "rank 0 is busy with In[" in so_far.stream())
    fresh.manager.interrupt_kernel()
    assert fresh.finish(waiting).error == "KeyboardInterrupt"
    assert fresh.run("busy.states()").result == "['running']"
    fresh.run("busy.cancel()")


def test_who_is_slow_is_not_called_busy(fresh: Kernel) -> None:
    fresh.fail(CELL)
    pid = int(fresh.run("pids = %parallel os.getpid()\npids[2]").result)
    fresh.run("import fibernb.notebook.debugging as debugging\nusual, debugging.PATIENCE_S = debugging.PATIENCE_S, 0.0")
    os.kill(pid, signal.SIGSTOP)
    dialogue = begin(fresh, "%fiber debug")
    time.sleep(0.5)
    os.kill(pid, signal.SIGCONT)
    dialogue.answer("q")
    shown = dialogue.finish().stream()
    fresh.run("debugging.PATIENCE_S = usual")
    assert "the same on rank 2" in shown
    assert "busy" not in shown


def test_where_nobody_can_type(fresh: Kernel) -> None:
    fresh.fail(CELL)
    dialogue = begin(fresh, "%fiber debug", can_ask=False)
    reply = dialogue.finish()
    assert reply.error == "UsageError"
    assert reply.text.startswith("%fiber debug asks for commands")


def failure(rank: int, told: str, at_s: float, name: str = "f", *, is_interrupt: bool = False) -> Failure:
    place: dict[str, Any] = {"file": "x.py", "line": 1, "function": ""}
    return Failure(rank=rank, task=rank, name=name, told=told, at_s=at_s, is_interrupt=is_interrupt, **place)


def test_which_error_is_meant() -> None:
    old = failure(0, "ValueError: old", 1.0, "g")
    others = [failure(3, "ValueError: 3", 2.0), failure(1, "ValueError: 1", 3.0), failure(2, "ValueError: 2", 2.5)]
    assert choose([old, *others], None)[0].rank == 1
    assert choose([old, *others], ValueError("3"))[0].rank == 3
    assert [other.rank for other in choose([old, *others], ValueError("3"))[1]] == [1, 2]
    interrupted = failure(0, "KeyboardInterrupt", 4.0, is_interrupt=True)
    assert choose([old, *others, interrupted], None)[0].rank == 1


def test_debug_of_ipython_goes_to_the_engine(fresh: Kernel) -> None:
    fresh.fail(CELL)
    assert fresh.run("import sys\ntype(sys.last_value).__name__").result == "'ZeroDivisionError'"
    assert "\n(1, 2)\n" in talk(fresh, "%debug", ["p a, b", "q"]).stream()


def test_debug_of_ipython_shows_the_notebooks_frames(fresh: Kernel) -> None:
    fresh.fail("def outer(n):\n    return fnb.get([treble.remote(i) for i in range(n)])\nouter(3)")
    shown = talk(fresh, "%debug", ["p n", "q"]).stream()
    assert "these are the notebook's frames; %fiber debug shows those of the engine" in shown
    assert "fnb.get([treble" in shown
    assert "3\n" in shown
    assert "fibernb/" not in shown
    assert "(6, 2)\n" in talk(fresh, "%fiber debug", ["p deep, i", "q"]).stream()


def test_debug_of_ipython_of_an_error_without_frames(fresh: Kernel) -> None:
    fresh.fail("%%parallel -w 0\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert fresh.run("%debug").stream().startswith("WorkerDied has no frames to look at")
    assert fresh.fail("%fiber scael").error == "UsageError"
    assert fresh.run("%debug").stream().startswith("UsageError has no frames to look at")


def test_debug_of_ipython_shows_where_a_cell_was_stopped(fresh: Kernel, tmp_path: Path) -> None:
    body = f"import time\nturn = 7\n{mark(tmp_path)}\nwhile True: time.sleep(0.01)"
    with time_runs_out_at_marks(fresh, tmp_path, 1):
        fresh.fail(f"%%parallel -w 1 --timeout {HOUR_S}\n{body}")
    shown = talk(fresh, "%debug", ["p turn", "q"]).stream()
    assert "rank 1: KeyboardInterrupt (In[" in shown
    assert "\n7\n" in shown


def test_debug_of_ipython_after_an_error_of_the_notebook_alone(fresh: Kernel) -> None:
    fresh.fail(CELL)
    fresh.fail("def f(q): return q / 0\nf(77)")
    assert "77" in talk(fresh, "%debug", ["p q", "q"]).stream()


def test_tb_shows_the_error_again(fresh: Kernel) -> None:
    first = fresh.fail(CELL).of("error")[0]["traceback"]
    again = fresh.finish(fresh.start("%tb"))
    assert again.of("error")[0]["traceback"] == first


@pytest.mark.parametrize("environment", VERSIONS)
def test_each_version_of_the_kernel(environment: str, tmp_path: Path) -> None:
    with running_kernel(tmp_path, python_of(environment), FIBERNB_PROGRESS="0") as kernel:
        kernel.run("%fiber scale 2")
        kernel.fail(CELL)
        assert "\n(1, 2)\n" in talk(kernel, "%fiber debug", ["p a, b", "q"]).stream()
        assert "\n(1, 2)\n" in talk(kernel, "%debug", ["p a, b", "q"]).stream()
        dialogue = begin(kernel, "%fiber debug")
        dialogue.wait_for_prompt()
        kernel.manager.interrupt_kernel()
        assert dialogue.finish().error == "KeyboardInterrupt"
        assert kernel.run("%%parallel\nrank").result == "[0] 0\n[1] 1"


def test_without_a_cluster(notebook: Notebook) -> None:
    with pytest.raises(NotConnected, match="uses no cluster"):
        notebook.run("%fiber debug")
