"""How what ranks print, display and return is laid out in the cell, and what happens when some of them fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.kernel import Kernel, Reply, running_kernel

BODY = """%%parallel {options}
import sys
from IPython.display import HTML, display
print('same')
print('odd' if rank % 2 else 'even')
print('warning', file=sys.stderr)
display(HTML('<b>picture</b>'))
print('last')
rank // 2"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("kernel"), FIBERNB_PROGRESS="0") as started:
        started.run("%fiber scale 4")
        yield started


def layout(reply: Reply) -> list[str]:
    """What the cell shows, top to bottom: printed lines, errors marked by !, displays and the value."""
    shown: list[str] = []
    for message in reply.messages:
        content = message["content"]
        if message["msg_type"] == "stream":
            mark = "!" if content["name"] == "stderr" else ""
            shown += [mark + line for line in content["text"].splitlines()]
        elif message["msg_type"] == "display_data":
            shown.append(content["data"]["text/html"])
        elif message["msg_type"] == "execute_result":
            shown += content["data"]["text/plain"].splitlines()
    return shown


def test_equal_output_is_shown_once_and_the_rest_by_rank(kernel: Kernel) -> None:
    shown = layout(kernel.run(BODY.format(options="")))
    printed = [line for line in shown if "] " in line and not line.startswith("!")]
    assert printed[:5] == ["[0-3] same", "[0,2] even", "[0,2] last", "[1,3] odd", "[1,3] last"]
    assert [line for line in shown if line.startswith("!")] == ["![0,2] warning", "![1,3] warning"]
    assert shown.count("<b>picture</b>") == 2
    assert shown[-2:] == ["[0-1] 0", "[2-3] 1"]


def test_every_rank_by_itself(kernel: Kernel) -> None:
    shown = layout(kernel.run(BODY.format(options="--output rank")))
    printed = [line for line in shown if "] " in line and not line.startswith("!")][:-2]
    expected = [[f"[{rank}] same", f"[{rank}] {'odd' if rank % 2 else 'even'}", f"[{rank}] last"] for rank in range(4)]
    assert printed == [line for lines in expected for line in lines]
    assert shown.count("<b>picture</b>") == 4


def test_the_lowest_rank_only(kernel: Kernel) -> None:
    shown = layout(kernel.run(BODY.format(options="-w 1: --output first")))
    assert [line for line in shown if "] " in line][:4] == ["[1] same", "[1] odd", "![1] warning", "[1] last"]
    assert shown.count("<b>picture</b>") == 1
    assert shown[-2:] == ["[1] 0", "[2-3] 1"]


def test_no_output_but_the_value(kernel: Kernel) -> None:
    assert layout(kernel.run(BODY.format(options="--output none"))) == ["[0-1] 0", "[2-3] 1"]


def test_a_background_cell_is_laid_out_alike(kernel: Kernel) -> None:
    kernel.run("import time")
    reply = kernel.run(BODY.format(options="-a handle").replace("import sys", "import sys, time\ntime.sleep(0.3)"))
    other = kernel.run("handle.result()")
    kernel.wait_until(reply, lambda so_far: "] last" in so_far.stream())
    assert [line for line in layout(reply) if "] " in line][:2] == ["[0-3] same", "[0,2] even"]
    assert layout(other) == ["[0-1] 0", "[2-3] 1"]


def test_values_are_there_for_the_notebook(kernel: Kernel) -> None:
    kernel.run("%%parallel --into halves\nrank / 2")
    assert kernel.run("sum(halves), halves.ranks, type(halves).__name__").result == "(3.0, (0, 1, 2, 3), 'CellResult')"
    assert kernel.run("%%parallel -w 3,1\nrank").result == "[1] 1\n[3] 3"
    assert kernel.run("%%parallel\nNone").of("execute_result") == []
    assert kernel.run("%%parallel\nrank;").of("execute_result") == []


def test_errors_of_several_kinds_come_as_a_group(kernel: Kernel) -> None:
    source = "print('begun')\nif rank < 2: 1 / 0\nif rank == 2: {}['key']\nrank"
    failed = kernel.fail(f"%%parallel\n{source}")
    assert failed.error == "ExceptionGroup"
    assert "3 of 4 ranks failed in 2 ways" in failed.text
    shown = "\n".join(failed.of("error")[0]["traceback"])
    assert shown.count("division by zero") == 1
    assert "on ranks 0-1 of 4" in shown
    assert "on rank 2 of 4" in shown
    assert failed.stream() == "[0-3] begun\n"
    caught = "try: get_ipython().run_cell_magic('parallel', '', '1 / 0 if rank else [][1]')\n"
    caught += "except* ZeroDivisionError as group: print(len(group.exceptions))\nexcept* IndexError: print('index')"
    assert sorted(kernel.run(caught).stream().splitlines()) == ["1", "index"]


def test_what_raises_while_it_is_shown_harms_nobody(kernel: Kernel) -> None:
    source = "class Shy:\n    def __repr__(self): raise ValueError('no repr')\nprint('before')\nShy()"
    kernel.finish(kernel.start(f"%%parallel\n{source}"))
    assert kernel.run("%parallel rank").result == "[0] 0\n[1] 1\n[2] 2\n[3] 3"


def test_output_comes_while_the_cell_runs(kernel: Kernel) -> None:
    with_view = "import os\nos.environ['FIBERNB_PROGRESS'] = '1'"
    kernel.run(with_view)
    reply = kernel.start("%%parallel -w 0\nimport time\nprint('early')\nwhile True: time.sleep(0.01)")
    kernel.wait_until(reply, lambda so_far: "[0] early" in so_far.stream())
    kernel.manager.interrupt_kernel()
    assert kernel.finish(reply).error == "KeyboardInterrupt"
    assert reply.stream().count("early") == 1
    kernel.run("os.environ['FIBERNB_PROGRESS'] = '0'")


def test_what_threads_print_later_goes_to_their_own_cell(kernel: Kernel, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    later = f"    while not pathlib.Path({str(go_on)!r}).exists(): time.sleep(0.01)\n    print('late', rank)"
    body = f"import pathlib, threading, time\ndef later():\n{later}\nthreading.Thread(target=later).start()"
    first = kernel.run(f"%%parallel -w 0,2\nprint('first')\n{body}")
    second = kernel.run("%%parallel\nprint('second')")
    go_on.touch()
    kernel.wait_until(first, lambda so_far: so_far.stream().count("late") == 2)
    assert sorted(first.stream().splitlines()) == ["[0,2] first", "[0] late 0", "[2] late 2"]
    assert second.stream() == "[0-3] second\n"
