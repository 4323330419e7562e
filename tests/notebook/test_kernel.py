"""The magics in a real kernel with a real cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fibernb.notebook.snapshot import without_escapes
from tests.notebook.kernel import Kernel, Reply, check_rate, cluster_directories, running_kernel
from tests.notebook.marks import (
    HOUR_S,
    gate,
    mark,
    time_runs_out_at_marks,
    wait_for_marks,
    wait_until_none_beats,
)

SIZE = 3
GRACE_S = "600"  # of an interrupt: who is not stopped by it does not end while anybody waits


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    directory = tmp_path_factory.mktemp("kernel")
    with running_kernel(directory, FIBERNB_PROGRESS="0", FIBERNB_INTERRUPT_GRACE_S=GRACE_S) as started:
        started.run(f"%fiber scale {SIZE}")
        yield started
    end = time.monotonic() + 10
    while cluster_directories(directory) and time.monotonic() < end:
        time.sleep(0.05)
    assert cluster_directories(directory) == []


def test_scaling_twice_is_scaling_once(kernel: Kernel) -> None:
    pids = kernel.run("import os\n%parallel os.getpid()").result
    assert kernel.run(f"%fiber scale {SIZE}").stream() == f"{SIZE} engines ready\n"
    assert kernel.run("%parallel os.getpid()").result == pids


def test_output_is_grouped(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel --into v\nprint('ready')\nif rank == 1: print('odd')\nrank * 10")
    assert reply.stream() == "[0-2] ready\n[1] odd\n"
    assert reply.result == "[0] 0\n[1] 10\n[2] 20"
    assert reply.of("display_data") == reply.of("update_display_data") == reply.of("comm_open") == []
    assert kernel.run("v").result == reply.result


def test_streams_and_native_output(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel -w 0\nimport sys, os\nprint('err', file=sys.stderr)\n!echo native\nprint('out')")
    assert reply.stream("stderr") == "[0] err\n"
    assert "[0] native\n" in reply.stream()
    assert "[0] out\n" in reply.stream()


def test_names_of_the_notebook(kernel: Kernel) -> None:
    kernel.run(
        "import numpy as np\nscale = 2\ndef f(x): return x * scale\nclass P:\n    def __init__(self, a): self.a = a"
    )
    assert kernel.run("%%parallel\nint(np.sum([f(rank), P(1).a]))").result == "[0] 1\n[1] 3\n[2] 5"
    kernel.run("scale = 10")
    assert kernel.run("%%parallel\nf(rank)").result == "[0] 0\n[1] 10\n[2] 20"
    assert (
        kernel.run("r = get_ipython().run_cell_magic('parallel', '-w 0', 'P(7)')\nisinstance(r[0], P)").result == "True"
    )


def test_what_cannot_be_pickled(kernel: Kernel) -> None:
    kernel.run("import threading\nlock = threading.Lock()")
    assert kernel.run("%%parallel\nif rank > 100: lock\n'fine'").result == "[0-2] 'fine'"
    reply = kernel.fail("%%parallel\nwith lock: pass")
    assert reply.error == "SerializationError"
    assert "'lock' could not be sent" in reply.text
    assert "standin.py" not in "".join(reply.of("error")[0]["traceback"])


def test_ipython_syntax_and_await(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel -w 1\nimport asyncio\nawait asyncio.sleep(0.01)\nx = !echo {rank + 1}\nx[0]")
    assert reply.result == "[1] '2'"


def test_an_error_is_shown_once_with_the_lines_of_the_cell(kernel: Kernel) -> None:
    reply = kernel.fail("%%parallel\ndef g(a):\n    return 1 / a\ng(0)")
    assert reply.error == "ZeroDivisionError"
    (shown,) = reply.of("error")
    text = without_escapes("\n".join(shown["traceback"]))
    assert text.count("return 1 / a") == 1
    assert "line 3, in g" in text
    assert "on ranks 0-2 of 3" in text
    assert "fibernb/" not in text
    assert reply.of("stream") == []


def test_exceptions_match_by_type(kernel: Kernel) -> None:
    source = (
        "try:\n    get_ipython().run_cell_magic('parallel', '', 'int(\"x\")')\n"
        "except ValueError as e:\n    print('caught', e)"
    )
    assert kernel.run(source).stream() == "caught invalid literal for int() with base 10: 'x'\n"


def test_mistakes_are_one_line(kernel: Kernel) -> None:
    reply = kernel.fail("%fiber scael 3")
    assert reply.error == "UsageError"
    assert len(reply.of("error")[0]["traceback"]) == 1
    assert kernel.fail("%%parallel -w 7\n1").error == "ConfigError"
    assert kernel.fail("%%parallel\nfor").error == "SyntaxError"


def test_a_dead_engine_does_not_stop_the_others(kernel: Kernel) -> None:
    reply = kernel.fail(
        "%%parallel\nimport os, signal\nprint('here')\nif rank == 1: os.kill(os.getpid(), signal.SIGKILL)\nrank"
    )
    assert reply.error == "WorkerDied"
    assert "SIGKILL" in reply.text
    assert reply.text.endswith("here")
    assert reply.stream() in ("[0,2] here\n", "[0-2] here\n")  # what the dead one printed may have come as well
    assert kernel.run("%%parallel\nrank").result == "[0] 0\n[1] 1\n[2] 2"


def test_interrupt_stops_the_work_and_the_next_cell_runs(kernel: Kernel, tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    reply = kernel.start(
        f"%%parallel\nimport time, pathlib\np = pathlib.Path({str(beat)!r} + str(rank))\nwhile True:\n"
        "    p.write_text('x')\n    time.sleep(0.005)"
    )
    beats = [Path(f"{beat}{rank}") for rank in range(SIZE)]
    end = time.monotonic() + 20
    while not all(path.exists() for path in beats) and time.monotonic() < end:
        time.sleep(0.01)
    kernel.manager.interrupt_kernel()
    kernel.finish(reply)
    assert reply.error == "KeyboardInterrupt"
    written_at = [path.stat().st_mtime_ns for path in beats]
    time.sleep(0.1)
    assert [path.stat().st_mtime_ns for path in beats] == written_at, "nothing works on when the cell has ended"
    assert kernel.run("%%parallel\nrank").result == "[0] 0\n[1] 1\n[2] 2"


def test_interrupt_of_a_sleep(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("import os")
    pids = kernel.run("%parallel os.getpid()").result
    reply = kernel.start(f"%%parallel\nimport time\n{mark(tmp_path)}\ntime.sleep(600)")
    wait_for_marks(tmp_path, SIZE)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(reply).error == "KeyboardInterrupt"
    assert kernel.run("%parallel os.getpid()").result == pids


def test_a_second_interrupt_replaces_engines_at_once(kernel: Kernel, tmp_path: Path) -> None:
    """And not only after the grace."""
    reply = kernel.start(f"%%parallel\nimport ctypes\n{mark(tmp_path)}\nctypes.PyDLL(None).sleep(600)  # holds the GIL")
    wait_for_marks(tmp_path, SIZE)
    kernel.manager.interrupt_kernel()
    time.sleep(0.3)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(reply).error == "KeyboardInterrupt"
    assert kernel.run("%parallel rank").result == "[0] 0\n[1] 1\n[2] 2"


def test_timeout(kernel: Kernel, tmp_path: Path) -> None:
    body = f"print('begun', flush=True)\nimport time\n{mark(tmp_path)}\ntime.sleep(600)"
    with time_runs_out_at_marks(kernel, tmp_path, SIZE):
        reply = kernel.fail(f"%%parallel --timeout {HOUR_S}\n{body}")
    assert reply.error == "CellTimeout"
    assert "(ranks 0-2 stood at In[" in "\n".join(reply.of("error")[0]["traceback"])
    assert reply.stream() == "[0-2] begun\n"
    assert kernel.run("%%parallel -w 0\n1").result == "[0] 1"


def test_background_output_goes_to_its_own_cell(kernel: Kernel, tmp_path: Path) -> None:
    body = f"{gate(tmp_path / 'go on')}\nprint('from the background')\nrank"
    reply = kernel.run(f"%%parallel -a h --into later\n{body}")
    assert "cell on ranks" in reply.result
    other = kernel.start("print('another cell')\nvalues = h.result()\nvalues")
    kernel.wait_until(other, lambda so_far: so_far.stream())
    (tmp_path / "go on").touch()
    kernel.finish(other)
    assert other.stream() == "another cell\n"
    assert other.result == "[0] 0\n[1] 1\n[2] 2"
    kernel.wait_until(reply, lambda so_far: so_far.stream())
    kernel.run("import time\nwhile 'later' not in globals(): time.sleep(0.01)")
    assert kernel.run("later == values").result == "True"
    assert reply.stream() == "[0-2] from the background\n"


@pytest.mark.parametrize("cell", ["", " --each x=[1]"])
def test_timeout_in_the_background(kernel: Kernel, cell: str) -> None:
    kernel.run(f"%%parallel --timeout 0.3 -a late{cell}\nimport time\ntime.sleep(30)")
    reply = kernel.fail("late.result()")
    assert reply.error == "CellTimeout"
    assert "longer than 0.3 s" in reply.text


def test_each(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel --each x=[1, 2, 3, 4] --into ys\nif x % 2: print('odd')\nx ** 2")
    assert reply.result == "[1, 4, 9, 16]"
    assert reply.stream() == "[item 0,2] odd\n"
    assert kernel.run("ys").result == "[1, 4, 9, 16]"
    assert kernel.run("%%parallel --each x=[1, 2] --into ys\nx * 2;").result == ""
    assert kernel.run("ys").result == "[2, 4]"


def test_errors_of_pools(kernel: Kernel) -> None:
    kernel.run("import fibernb.multiprocessing as mp\npool = mp.Pool(2)")
    reply = kernel.fail("def inverse(x):\n    return 1 / x\npool.map(inverse, [1, 0])")
    shown = without_escapes("\n".join(reply.of("error")[0]["traceback"]))
    assert re.sub(r"In\[\d+\]", "In[#]", shown).splitlines()[:-3] == [
        "Traceback (most recent call last):",
        "  Cell In[#], line 3",
        "    pool.map(inverse, [1, 0])",
        "ZeroDivisionError",
        "Traceback (most recent call last):",
        "  Cell In[#], line 2, in inverse",
    ]
    assert shown.endswith("ZeroDivisionError: division by zero")
    library = "import multiprocessing as library\nwith library.Pool(1) as p:\n    p.apply(inverse, (0,))"
    assert "RemoteTraceback" in kernel.fail(library).of("error")[0]["traceback"][1]
    kernel.run("pool.terminate(); pool.join()")


def test_each_takes_items_apart(kernel: Kernel) -> None:
    kernel.run("a = b = 'of the notebook'")
    assert kernel.run("%%parallel --each a, b = zip('xy', (2, 3))\na * b").result == "['xx', 'yyy']"
    assert kernel.run("a, b").result == "('of the notebook', 'of the notebook')"


def test_each_with_errors(kernel: Kernel) -> None:
    body = "\nif x == 2: raise ValueError('two')\nx"
    reply = kernel.fail(f"%%parallel --each x=range(4){body}")
    assert reply.error == "ValueError"
    shown = "\n".join(reply.of("error")[0]["traceback"])
    assert "item 2; 1 of 4 items failed" in shown
    assert shown.endswith("ValueError: two\nx = 2")
    assert kernel.run(f"%%parallel --each x=range(4) --on-error keep{body}").result == "[0, 1, ValueError('two'), 3]"


def test_each_with_deaths(kernel: Kernel, tmp_path: Path) -> None:
    once = tmp_path / "once"
    body = (
        f"\nimport os, pathlib\np = pathlib.Path({str(once)!r})\nif x == 1 and not p.exists():\n"
        "    p.touch()\n    os._exit(3)\nx"
    )
    assert kernel.run(f"%%parallel --each x=range(4){body}").result == "[0, 1, 2, 3]"
    once.unlink()
    assert kernel.fail(f"%%parallel --each x=range(4) --retries 0{body}").error == "WorkerDied"


def test_rich_displays(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nfrom IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))")
    (shown,) = reply.of("display_data")
    assert shown["data"]["text/html"] == "<b>x</b>"
    assert reply.stream() == "[0-2]\n"
    first = kernel.run("%%parallel -w 0\nd = display('one', display_id=True)")
    second = kernel.run("%%parallel -w 0\nd.update('two')")
    (updated,) = second.of("update_display_data")
    assert updated["transient"] == first.of("display_data")[0]["transient"]


def test_long_output_is_bounded(kernel: Kernel) -> None:
    reply = kernel.run("%%parallel\nfor i in range(20_000): print(i)")
    lines = reply.stream().splitlines()
    assert len(lines) <= 1001
    assert lines[0] == "[0-2] 0"
    assert lines[-1] == "[0-2] 19999"
    assert any("lines (" in line and "%fiber log has them" in line for line in lines)


def test_pull_scatter_gather(kernel: Kernel) -> None:
    kernel.run("xs = np.arange(10)\n%fiber scatter xs")
    assert kernel.run("%%parallel\nxs = xs * 2\nlen(xs)").result == "[0] 4\n[1-2] 3"
    assert kernel.run("%fiber gather xs\nxs.tolist()").result == str([2 * x for x in range(10)])
    assert kernel.run("%fiber pull rank --into rs\nrs").result == "[0] 0\n[1] 1\n[2] 2"


def test_status(kernel: Kernel) -> None:
    reply = kernel.run("%fiber")
    assert "3 seats, 3 ready" in reply.result
    assert "text/html" in reply.of("execute_result")[0]["data"]


def test_unload(kernel: Kernel) -> None:
    kernel.run("%unload_ext fibernb")
    assert kernel.fail("%%parallel\n1").status == "error"
    kernel.run("%load_ext fibernb")
    assert kernel.run("%%parallel -w 0\n1").result == "[0] 1"


def test_restart_and_attach(tmp_path: Path) -> None:
    with running_kernel(tmp_path, FIBERNB_PROGRESS="0", FIBERNB_LEASE_S="60") as kernel:
        kernel.run("%fiber scale 2\nfrom_notebook = 5")
        kernel.run("%%parallel\nmade_there = rank + from_notebook")
        kernel.restart()
        told = kernel.run("%load_ext fibernb").stream()
        assert told.endswith("started before, still runs: %fiber attach takes it up again\n"), told
        assert "2 engines ready" in kernel.run("%fiber attach").stream()
        assert kernel.run("%%parallel\nmade_there, from_notebook").result == "[0] (5, 5)\n[1] (6, 5)"
    end = time.monotonic() + 20
    while cluster_directories(tmp_path) and time.monotonic() < end:
        time.sleep(0.05)
    assert cluster_directories(tmp_path) == []


def test_another_cluster_after_a_restart(tmp_path: Path) -> None:
    with running_kernel(tmp_path, FIBERNB_PROGRESS="0", FIBERNB_LEASE_S="30") as kernel:
        kernel.run("%fiber start -n 1 --name first")
        kernel.manager.restart_kernel(now=True)
        kernel.client.wait_for_ready(timeout=30)
        kernel.run("import fibernb as fnb\nfnb.remote(abs).remote(-1).result()")
        told = kernel.run("%%parallel\n0").stream()
        assert told.startswith("cluster first, which this notebook started before, still runs: %fiber stop, and"), told
        assert kernel.run("%%parallel\n0").stream() == ""
        kernel.run("%fiber stop")
        assert "1 engine ready" in kernel.run("%fiber attach first").stream()


def test_live_views(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as kernel:
        kernel.run("import fibernb.notebook.waiting as w\nusual, w.PATIENCE_S = w.PATIENCE_S, 60.0")
        kernel.run("%%parallel -w 0\nprint('quick')")  # starts the cluster
        quick = kernel.run("%%parallel\nprint('quick')")
        assert quick.of("comm_open") == quick.of("display_data") == []
        kernel.run("w.PATIENCE_S = usual")
        body = "import time, fibernb as fnb\n"
        body += "for i in fnb.progress(range(200), desc='steps'): time.sleep(0.008)\n"
        body += f"{gate(tmp_path / 'go on')}\nprint('end')"
        reply = kernel.start(f"%%parallel\n{body}")
        kernel.wait_until(reply, lambda so_far: len(pages_of(so_far)) > 3 and "steps" in str(pages_of(so_far)))
        (tmp_path / "go on").touch()
        assert kernel.finish(reply).status == "ok"
        (opened,) = reply.of("display_data")
        (closed,) = reply.of("update_display_data")
        assert closed["transient"] == opened["transient"]
        assert closed["data"]["text/plain"].startswith("✓ ")
        pages = pages_of(reply)
        check_rate(reply)
        assert any("steps" in page for page in pages)
        assert "] end\n" in reply.stream()
        kernel.messages_for(reply, 0.5)
        assert len(pages_of(reply)) == len(pages)
        failed = kernel.start(f"%%parallel\n{gate(tmp_path / 'fail')}\n1 / 0")
        kernel.wait_for_view(failed)
        (tmp_path / "fail").touch()
        assert kernel.finish(failed).status == "error"
        assert failed.of("update_display_data")[0]["data"]["text/plain"].startswith("✗ ")
        check_that_a_single_rank_is_shown_as_it_goes(kernel, tmp_path)
        check_the_view_of_a_background_cell(kernel, tmp_path)
        check_the_cancel_button(kernel)


def pages_of(reply: Reply) -> list[str]:
    """What the live view has shown, one after the other."""
    return [str(content["data"]["state"]) for content in reply.of("comm_msg") if "state" in content["data"]]


STOPS = (20, 40, 60, 80)  # of the bar, until the test has seen it there


def bars_of(reply: Reply) -> list[str]:
    """What the display with the bars has shown, one after the other."""
    shown = [*reply.of("display_data"), *reply.of("update_display_data")]
    return [content["data"]["text/plain"] for content in shown]


def wait_for_bar(kernel: Kernel, reply: Reply, done: int) -> None:
    kernel.wait_until(reply, lambda so_far: f" {done}/100 it" in str(bars_of(so_far)))


def wait_for_line(kernel: Kernel, reply: Reply, line: str) -> None:
    kernel.wait_until(reply, lambda so_far: line in so_far.stream())


def test_bars_and_output_of_tasks_stand_in_the_cell_that_starts_the_cluster(tmp_path: Path) -> None:
    work = "@fnb.remote\ndef work():\n"
    work += "    for i in tqdm(range(100), desc='steps', mininterval=0, miniters=1):\n"
    work += f"        while i in {STOPS} and not pathlib.Path(f'go {{i}}').exists(): time.sleep(0.01)\n"
    work += "    print('end')\n    return 5\n"
    with running_kernel(tmp_path) as kernel:
        reply = kernel.start(
            f"import pathlib, time, fibernb as fnb\nfrom tqdm import tqdm\n{work}fnb.get(work.remote())"
        )
        for step in STOPS:
            wait_for_bar(kernel, reply, step)
            (tmp_path / f"go {step}").touch()
        assert kernel.finish(reply).status == "ok"
        rank = reply.stream()[:3]  # whatever it is
        assert (reply.result, reply.stream(), reply.stream("stderr")) == ("5", f"{rank} end\n", "")
        (opened,) = reply.of("display_data")
        moves = reply.of("update_display_data")
        assert {content["transient"]["display_id"] for content in moves} == {opened["transient"]["display_id"]}
        assert opened["data"]["text/plain"].startswith(f"{rank} steps ")
        assert moves[-1]["data"]["text/plain"].startswith(f"{rank} steps 100/100 it (100%)")
        check_rate(reply)


def check_the_cancel_button(kernel: Kernel) -> None:
    reply = kernel.start("%%parallel\nimport time\nfor _ in range(300): time.sleep(0.1)")
    kernel.click(kernel.button(reply))
    assert kernel.finish(reply).error == "TaskCancelled"


def check_the_view_of_a_background_cell(kernel: Kernel, directory: Path) -> None:
    reply = kernel.run(f"%%parallel -a h\n{gate(directory / 'done')}\nprint('done')\nrank")
    kernel.wait_for_view(reply)
    (directory / "done").touch()
    other = kernel.run("h.result()")
    kernel.wait_until(reply, lambda so_far: so_far.of("update_display_data") and "] done" in so_far.stream())
    assert len(reply.of("display_data")) == len(reply.of("update_display_data")) == 1
    assert "] done\n" in reply.stream()
    assert other.of("display_data") == other.of("stream") == []


def check_that_a_single_rank_is_shown_as_it_goes(kernel: Kernel, directory: Path) -> None:
    body = "import pathlib, time\nfrom IPython.display import display\nd = display('plot 0', display_id=True)\n"
    body += "for i in range(8):\n    while not pathlib.Path(f'step {i}').exists(): time.sleep(0.01)\n"
    body += "    print('step', i)\n    d.update(f'plot {i}')"
    reply = kernel.start(f"%%parallel -w 0\n{body}")
    for step in range(8):
        (directory / f"step {step}").touch()
        wait_for_line(kernel, reply, f"step {step}")
    assert kernel.finish(reply).status == "ok"
    assert reply.stream().splitlines() == ["[0]", *(f"[0] step {i}" for i in range(8))]
    assert len([message for message in reply.messages if message["msg_type"] == "stream"]) > 3
    updates = [content["data"]["text/plain"] for content in reply.of("update_display_data")]
    assert "'plot 7'" in updates


def test_tasks_print_into_their_own_cell(kernel: Kernel, tmp_path: Path) -> None:
    body = f"    {gate(tmp_path / 'go on')}\n    print('job', i)\n    return i"
    kernel.run(f"import fibernb as fnb\n@fnb.remote\ndef job(i):\n{body}")
    first = kernel.run("ref = job.remote(1)\nprint('submitted')")
    (tmp_path / "go on").touch()
    second = kernel.run("fnb.get(ref)")
    kernel.wait_until(first, lambda so_far: "job 1\n" in so_far.stream())
    assert second.stream() == ""
    assert first.stream().startswith("submitted\n[")
    assert first.stream().endswith("] job 1\n")


def test_interrupting_a_get_stops_its_tasks(kernel: Kernel, tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    kernel.run(
        f"import time, pathlib, fibernb as fnb\n@fnb.remote\ndef work():\n    while True:\n"
        f"        pathlib.Path({str(beat)!r}).write_text('x')\n        time.sleep(0.005)"
    )
    reply = kernel.start("fnb.get(work.remote())")
    end = time.monotonic() + 20
    while not beat.exists() and time.monotonic() < end:
        time.sleep(0.01)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(reply).error == "KeyboardInterrupt"
    wait_until_none_beats([beat])
    assert kernel.run("%%parallel -w 0\n1").result == "[0] 1"


def test_tasks_work_where_the_notebook_works(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "beside_the_notebook.py").write_text("X = 77")
    kernel.run(f"import os, sys, fibernb as fnb\nbefore = os.getcwd()\nos.chdir({str(tmp_path)!r})")
    kernel.run("sys.path.insert(0, os.getcwd())")
    kernel.run("@fnb.remote\ndef work():\n    import os, beside_the_notebook as m\n    return os.getcwd(), m.X")
    assert kernel.run("fnb.get(work.remote())").result == repr((str(tmp_path), 77))
    kernel.run("sys.path.pop(0)\nos.chdir(before)")
    assert kernel.run("fnb.get(fnb.remote(os.getcwd).remote()) == before").result == "True"


def test_an_edited_module_is_never_stale(kernel: Kernel, tmp_path: Path) -> None:
    module = tmp_path / "edited_while_in_use.py"
    module.write_text("def f(): return 1")
    kernel.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport edited_while_in_use as m")
    kernel.run("import fibernb as fnb\nfrom edited_while_in_use import f\ntask = fnb.remote(lambda: (m.f(), f()))")
    assert kernel.run("%%parallel\nm.f(), f()").result == "[0-2] (1, 1)"
    assert kernel.run("fnb.get(task.remote())").result == "(1, 1)"
    module.write_text("def f(): return 2")
    assert kernel.run("%%parallel\nm.f(), f()").result == "[0-2] (2, 2)"
    assert kernel.run("fnb.get([task.remote() for _ in range(9)]) == [(2, 2)] * 9").result == "True"
    module.write_text("def f(: return 3")
    assert kernel.fail("%%parallel\nm.f()").error == "SyntaxError"
    module.write_text("def f(): return 4")
    assert kernel.run("%%parallel -w 0\nf()").result == "[0] 4"


def test_interrupting_an_await(kernel: Kernel) -> None:
    kernel.run("import time\nfrom IPython import get_ipython")
    kernel.run("%%parallel -a handle\ntime.sleep(60)")
    reply = kernel.start("print('awaits', flush=True)\nawait handle")
    kernel.wait_until(reply, lambda so_far: "awaits" in so_far.stream())
    pressed_at = time.monotonic()
    kernel.manager.interrupt_kernel()
    kernel.finish(reply)
    assert time.monotonic() - pressed_at < 5
    (shown,) = reply.of("error")
    assert shown["ename"] == "KeyboardInterrupt"
    assert "cells.py" not in "".join(shown["traceback"])
    kernel.run("handle.cancel()")
    assert kernel.run("%%parallel -w 0\n1").result == "[0] 1"


def test_new_engines_get_the_names(kernel: Kernel) -> None:
    kernel.run("here = 'pushed'\nkept = 'notebook'")
    kernel.run("%%parallel\nhere\nif rank == 0: kept = 'engine'")
    assert kernel.run("%%parallel\nkept").result == "[0] 'engine'\n[1-2] 'notebook'"
    kernel.run("%fiber restart 0,2")
    assert kernel.run("%%parallel\nhere, kept").result == "[0-2] ('pushed', 'notebook')"
    kernel.run("%fiber scale +1")
    assert kernel.run("%%parallel -w 3\nhere, kept").result == "[3] ('pushed', 'notebook')"
    kernel.run(f"%fiber scale {SIZE}")
