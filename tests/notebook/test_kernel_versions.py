"""What every supported ipykernel does alike: that of this environment, and older ones in environments of their own.

``make`` makes those and names them in OLDER_KERNELS; without it they are looked for where it puts them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.kernel import Kernel, Reply, running_kernel
from tests.notebook.marks import gate, mark, wait_for_marks

ROOT = Path(__file__).parents[2]
SIZE = 3
HERE = "of this environment"
OLDER = os.environ.get("OLDER_KERNELS", ".venv-ipykernel-7.3 .venv-ipykernel-6.31").split()
VERSIONS = [HERE, *OLDER]
ENDLESS = "import time\nwhile True: time.sleep(0.01)"
ONE_IS_DEAF = """
import ctypes
while rank == 1:
    try:
        {mark}
        ctypes.PyDLL(None).sleep(60)  # holds the interpreter's lock
    except KeyboardInterrupt: pass
{mark}"""


def python_of(environment: str) -> str:
    python = Path(sys.executable) if environment == HERE else ROOT / environment / "bin/python"
    assert python.exists(), f"{python} is missing: `make kernels` makes the environments with older kernels"
    return str(python)


@pytest.fixture(scope="module", params=VERSIONS)
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("kernel"), python_of(request.param)) as started:
        if request.param != HERE:
            version = request.param.rpartition("-")[2]
            assert started.run("import ipykernel\nprint(ipykernel.__version__)").stream().startswith(f"{version}.")
        started.run(f"%fiber scale {SIZE}")
        yield started


def check_the_next_cell(kernel: Kernel) -> None:
    assert kernel.run("%%parallel\nprint('hello')\nrank").result == "[0] 0\n[1] 1\n[2] 2"


def html_of(reply: Reply) -> str:
    (shown,) = reply.of("execute_result")
    return str(shown["data"]["text/html"])


def test_values_output_and_errors(kernel: Kernel) -> None:
    kernel.run("def double(x): return 2 * x")
    reply = kernel.run("%%parallel --into values\nprint('ready')\ndouble(rank)")
    assert (reply.result, reply.stream()) == ("[0] 0\n[1] 2\n[2] 4", "[0-2] ready\n")
    assert kernel.run("(_ == values, values.ranks)").result == "(True, (0, 1, 2))"
    failed = kernel.fail("%%parallel\nprint('before')\nif rank == 1:\n    {}['absent']")
    assert (failed.error, failed.stream()) == ("KeyError", "[0-2] before\n")
    shown = "\n".join(failed.of("error")[0]["traceback"])
    assert "on rank 1 of 3" in shown
    assert "line 4" in shown
    assert kernel.run("import sys\ntype(sys.last_value).__name__").result == "'KeyError'"


def test_engines_await(kernel: Kernel) -> None:
    assert kernel.run("%%parallel -w 1\nimport asyncio\nawait asyncio.sleep(0.01)\nrank").result == "[1] 1"


def test_where_a_cell_cannot_await(kernel: Kernel) -> None:
    timed = kernel.run("%%time\n%%parallel\nrank")
    assert timed.result == "[0] 0\n[1] 1\n[2] 2"
    assert "Wall time" in timed.stream()
    assert kernel.run("%%capture caught\n%%parallel\nprint('inside')").stream() == ""
    assert kernel.run("caught.stdout").result == r"'[0-2] inside\n'"
    calls = "[get_ipython().run_cell_magic('parallel', '', f'rank + {i}')[0] for i in range(3)]"
    assert kernel.run(calls).result == "[0, 1, 2]"
    kernel.run("%autoawait off")
    check_the_next_cell(kernel)
    kernel.run("%autoawait on")
    check_the_next_cell(kernel)


@pytest.mark.parametrize("above", ["", "%%time\n"], ids=["awaited", "blocking"])
def test_the_stop_button(kernel: Kernel, above: str) -> None:
    reply = kernel.start(f"{above}%%parallel\n{ENDLESS}")
    kernel.wait_for_view(reply)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(reply).error == "KeyboardInterrupt"
    (left,) = reply.of("update_display_data")
    assert left["data"]["text/plain"].startswith("✗ 3 of 3 ranks, 3 cancelled")
    check_the_next_cell(kernel)


@pytest.mark.parametrize("above", ["", "%%time\n"], ids=["awaited", "blocking"])
def test_pressing_stop_again_replaces_engines(kernel: Kernel, tmp_path: Path, above: str) -> None:
    reply = kernel.start(f"{above}%%parallel\n{ONE_IS_DEAF.format(mark=mark(tmp_path))}\n{ENDLESS}")
    wait_for_marks(tmp_path, SIZE)
    kernel.wait_for_view(reply)
    for _ in range(4):
        kernel.manager.interrupt_kernel()
        time.sleep(0.1)
    assert kernel.finish(reply).error == "KeyboardInterrupt"
    check_the_next_cell(kernel)


def test_what_does_not_stop_is_replaced_and_named(kernel: Kernel, tmp_path: Path) -> None:
    reply = kernel.start(f"%%parallel\n{ONE_IS_DEAF.format(mark=mark(tmp_path))}\n{ENDLESS}")
    wait_for_marks(tmp_path, SIZE)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(reply).error == "KeyboardInterrupt"
    assert "rank 1 did not stop and has a new engine" in "\n".join(reply.of("error")[0]["traceback"])
    check_the_next_cell(kernel)


def test_the_cancel_button(kernel: Kernel) -> None:
    subshell = kernel.subshell()
    reply = kernel.start(f"%%parallel\n{ENDLESS}")
    button = kernel.button(reply)
    if subshell is None:  # before ipykernel 7 a click would wait for the end of the cell, so there is nothing to click
        assert not button
        kernel.manager.interrupt_kernel()
        assert kernel.finish(reply).error == "KeyboardInterrupt"
    else:
        kernel.click(button, subshell)
        assert kernel.finish(reply).error == "TaskCancelled"
    check_the_next_cell(kernel)


def test_the_cancel_button_of_a_background_cell(kernel: Kernel) -> None:
    subshell = kernel.subshell()
    reply = kernel.run(f"%%parallel -a handle\n{ENDLESS}")
    kernel.click(kernel.button(reply), subshell)
    assert kernel.fail("handle.result()").error == "TaskCancelled"
    check_the_next_cell(kernel)


def test_a_background_cell(kernel: Kernel, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    body = f"{gate(go_on)}\nprint('done')\ndisplay({{'text/plain': 'shown'}}, raw=True)\nrank"
    reply = kernel.run(f"%%parallel -a handle\nfrom IPython.display import display\n{body}")
    kernel.wait_for_view(reply)
    other = kernel.run("print('other')\nhandle.ranks, handle.done()")
    assert (other.result, other.stream()) == ("((0, 1, 2), False)", "other\n")
    meanwhile = kernel.start("%%parallel\nprint('meanwhile')")
    kernel.wait_for_view(meanwhile)
    go_on.touch()
    kernel.finish(meanwhile)
    awaited = kernel.run("await handle")
    assert awaited.result == "[0] 0\n[1] 1\n[2] 2"
    kernel.wait_until(reply, lambda so_far: "] done" in so_far.stream() and so_far.of("update_display_data"))
    kernel.messages_for(reply, 0.3)
    assert [content["data"]["text/plain"] for content in reply.of("display_data")].count("shown") == 1
    assert len(reply.of("update_display_data")) == 1
    assert other.of("display_data") == other.of("update_display_data") == awaited.of("display_data") == []
    assert awaited.stream() == ""


@pytest.mark.parametrize("how", ["handle.cancel()", "%fiber cancel", "import fibernb\nfibernb.cancel(handle)"])
def test_cancelling_a_background_cell(kernel: Kernel, how: str) -> None:
    kernel.run(f"%%parallel -a handle\n{ENDLESS}")
    assert "<progress" in html_of(kernel.run("handle"))
    kernel.run(how)
    assert kernel.fail("handle.result()").error == "TaskCancelled"
    assert kernel.fail("await handle").error == "TaskCancelled"
    shown = kernel.run("handle")
    assert shown.result == "<cell on ranks 0-2: 3 cancelled>"
    assert "✗ 3 of 3 ranks, 3 cancelled, " in html_of(shown)
    check_the_next_cell(kernel)


def test_magics_that_load_when_first_used(tmp_path: Path, kernel: Kernel) -> None:
    kernel.run("%unload_ext fibernb")
    kernel.run("for name in ('parallel', 'fiber'): get_ipython().magics_manager.register_lazy(name, 'fibernb')")
    assert kernel.run("%%parallel -w 0\n'first'").result == "[0] 'first'"
    check_the_next_cell(kernel)
