"""Cells and the other operations, on a real engine with IPython."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cloudpickle import register_pickle_by_value

from fibernb import serialize
from fibernb.core.messages import Display, Interrupt, Progress
from fibernb.engine import operations
from fibernb.engine.context import CellContext
from fibernb.errors import ClusterError, ObjectLost
from fibernb.model import TaskId
from fibernb.serialize.frames import stored_frame
from tests.engine.conftest import NodeProcess

register_pickle_by_value(sys.modules[__name__])  # engines cannot import it


class Desk:
    """Runs cells on engine 0 and remembers what they said."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.hub = node.hub
        self.hub.said.clear()
        self.task: TaskId = 0

    def begin(self, source: str, engine: int = 0, **context: Any) -> TaskId:
        cell = CellContext(
            **{"cell_id": "c1", "ranks": (0, 1), "size": 2, "filename": "<cell c1>", **context},
        )
        (self.task,) = self.hub.send(engine, operations.run_cell, (source, cell))
        return self.task

    def run(self, source: str, engine: int = 0, **context: Any) -> Any:
        return self.hub.value(self.begin(source, engine, **context))

    def call(self, function: Any, *args: Any) -> Any:
        return self.hub.call(0, function, *args)

    @property
    def text(self) -> str:
        return self.hub.text(self.task).replace("\r\n", "\n")

    def displays(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (said.kind, msgspec.json.decode(said.content))
            for said in self.hub.said
            if isinstance(said, Display) and said.task == self.task
        ]


@pytest.fixture
def desk(shared_node: NodeProcess) -> Desk:
    return Desk(shared_node)


# ---- values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1 + 1", 2),
        ("x = 5\nx * 2", 10),
        ("x = 5", None),
        ("7;", None),
        ("7  # comment; with semicolon", 7),
        ("", None),
        ("def f():\n    return 1\nf()", 1),
        ("if True:\n    3", None),
        ("import asyncio\nawait asyncio.sleep(0)\n8", 8),
        ("import asyncio\nasync def g(): return 9\nawait g()", 9),
        ("%time 4", 4),
        ("a = %pwd\ntype(a).__name__", "str"),
        ("files = !echo one two\nlist(files)", ["one two"]),
    ],
)
def test_the_value_is_that_of_the_last_expression(desk: Desk, source: str, value: object) -> None:
    assert desk.run(source) == value


def test_the_namespace_lasts_and_is_each_engines_own(desk: Desk) -> None:
    desk.run("kept = 1")
    desk.run("kept = 2", engine=1)
    assert [desk.run("kept", engine) for engine in (0, 1)] == [1, 2]
    assert desk.run("import sys; sys.modules['__main__'].kept") == 1


def test_rank_size_and_ranks(desk: Desk) -> None:
    assert desk.run("rank, size, ranks", engine=1, ranks=(1,)) == (1, 2, (1,))
    assert desk.run("rank = 99") is None
    assert desk.run("rank") == 0
    desk.call(operations.set_names, {"size": serialize.dumps(77), "rank": serialize.dumps(5)})
    assert desk.run("size, rank", pushed=("size",)) == (77, 0)


def test_values_that_cannot_leave_are_shown_by_their_repr(desk: Desk) -> None:
    back = desk.run("import threading\nthreading.Lock()")
    assert isinstance(back, serialize.Unpicklable)
    assert repr(back).startswith("<unlocked _thread.lock")
    assert repr(desk.run("(n for n in ())")).startswith("<generator object")
    assert repr(desk.run("[threading.Lock()]")).startswith("[<unlocked")


# ---- output -----------------------------------------------------------------------------------------------


def test_output_belongs_to_its_cell_and_comes_before_its_result(desk: Desk) -> None:
    first = desk.begin("print('one')\nimport sys\nprint('two', file=sys.stderr)")
    second = desk.begin("print('three')")
    desk.hub.value(second)
    assert desk.hub.text(first, "stdout") == "one\n"
    assert desk.hub.text(first, "stderr") == "two\n"
    assert desk.hub.text(second) == "three\n"


def test_output_arrives_while_the_cell_runs(desk: Desk, tmp_path: Path) -> None:
    gate = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go on')!r}): time.sleep(0.01)"
    task = desk.begin(f"print('early')\n{gate}\nprint('late')")
    desk.hub.wait(lambda: desk.hub.text(task) == "early\n")
    assert task not in desk.hub.results
    (tmp_path / "go on").touch()
    desk.hub.value(task)
    assert desk.hub.text(task) == "early\nlate\n"


def test_output_of_commands_processes_and_descriptors(desk: Desk) -> None:
    desk.run("!echo shell")
    assert desk.text == "shell\n"
    desk.run("import subprocess\nsubprocess.run('echo child; echo error >&2', shell=True)\nNone")
    assert desk.text == "child\nerror\n"
    desk.run("import os\nos.write(1, b'native')\nNone")
    assert desk.text == "native"
    desk.run("import sys\nsys.stdout.buffer.write(b'bytes')\nNone")
    assert desk.text == "bytes"
    desk.run("%%bash\necho from bash")
    assert desk.text == "from bash\n"
    desk.run("from multiprocessing import Process\np = Process(target=print, args=('forked',))\np.start()\np.join()")
    assert desk.text == "forked\n"


def test_native_output_arrives_while_the_cell_runs(desk: Desk, tmp_path: Path) -> None:
    command = f"echo now; while [ ! -e '{tmp_path}/go on' ]; do sleep 0.01; done"
    task = desk.begin(f"import subprocess\nsubprocess.run({command!r}, shell=True)\n0")
    desk.hub.wait(lambda: "now" in desk.hub.text(task))
    assert task not in desk.hub.results
    (tmp_path / "go on").touch()
    desk.hub.value(task)


def test_threads_print_into_the_cell_that_started_them(desk: Desk) -> None:
    source = """
import threading, time
def later():
    time.sleep(0.3)
    print("from thread")
thread = threading.Thread(target=later)
thread.start()
"""
    first = desk.begin(source)
    second = desk.begin("thread.join()\nprint('second')")
    desk.hub.value(second)
    assert (desk.hub.text(first), desk.hub.text(second)) == ("from thread\n", "second\n")


def test_background_coroutines_go_on_while_later_cells_await(desk: Desk) -> None:
    source = """
import asyncio
async def background():
    await asyncio.sleep(0.01)
    print("background")
job = asyncio.create_task(background())
await asyncio.sleep(0)
"""
    first = desk.begin(source)
    second = desk.begin("await job\nprint('second')")
    desk.hub.value(second)
    assert (desk.hub.text(first), desk.hub.text(second)) == ("background\n", "second\n")


def test_much_output_is_neither_lost_nor_repeated(desk: Desk) -> None:
    desk.run("for i in range(20000): print(i)")
    assert desk.text == "".join(f"{i}\n" for i in range(20000))
    numbers = [said.sequence for said in desk.hub.said if said.task == desk.task]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) < 100


def test_displays_updates_and_clearing(desk: Desk) -> None:
    source = """
from IPython.display import HTML, display, clear_output
handle = display(HTML("<b>x</b>"), display_id="d1")
handle.update(HTML("<i>y</i>"))
clear_output(wait=True)
print("end")
"""
    desk.run(source)
    (shown, updated, cleared) = desk.displays()
    assert shown[0] == "display"
    assert shown[1]["data"]["text/html"] == "<b>x</b>"
    assert shown[1]["transient"] == {"display_id": "d1"}
    assert (updated[0], updated[1]["data"]["text/html"]) == ("update", "<i>y</i>")
    assert cleared == ("clear", {"wait": True})


def test_figures_are_displayed(desk: Desk) -> None:
    desk.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone")
    ((kind, content),) = desk.displays()
    assert kind == "display"
    assert content["data"]["image/png"].startswith("iVBOR")
    desk.run("fig, ax = plt.subplots()\nplt.show()\nprint('after')")
    assert len(desk.displays()) == 1


def test_bars_are_reported_and_end_before_the_result(desk: Desk) -> None:
    desk.run("from fibernb.progress import progress\nfor i in progress(range(1000), desc='work'): pass")
    bars = [bar for said in desk.hub.said if isinstance(said, Progress) for bar in said.bars]
    assert (bars[-1].description, bars[-1].done, bars[-1].total, bars[-1].closed) == ("work", 1000, 1000, True)
    desk.run("bar = iter(progress([1, 2, 3]))\nnext(bar), next(bar)\nimport time; time.sleep(0.01)")
    said = [said for said in desk.hub.said if isinstance(said, Progress) and said.task == desk.task]
    assert (said[-1].bars[0].done, said[-1].bars[0].closed) == (1, True)


# ---- errors -----------------------------------------------------------------------------------------------


def failure_of(desk: Desk, source: str, **context: Any) -> tuple[BaseException, str]:
    with pytest.raises(BaseException) as caught:  # noqa: PT011  whichever it is
        desk.run(source, **context)
    return caught.value, str(caught.value.__cause__)


def test_tracebacks_show_the_lines_of_cells_and_no_frames_of_ours(desk: Desk) -> None:
    desk.run("def helper(x):\n    return 1 / x", filename="<cell a>", first_line=2)
    error, text = failure_of(desk, "y = 1\nhelper(0)", filename="<cell b>", first_line=2)
    assert isinstance(error, ZeroDivisionError)
    lines = [line.strip() for line in text.strip().splitlines() if set(line) - set(" ~^")]
    assert lines == [
        "Traceback (most recent call last):",
        'File "<cell b>", line 3, in <module>',
        "helper(0)",
        'File "<cell a>", line 3, in helper',
        "return 1 / x",
        "ZeroDivisionError: division by zero",
    ]


def test_tracebacks_of_awaiting_cells(desk: Desk) -> None:
    source = "import asyncio\nasync def fails():\n    await asyncio.sleep(0)\n    raise KeyError('k')\nawait fails()"
    error, text = failure_of(desk, source)
    assert isinstance(error, KeyError)
    assert "base_events" not in text
    assert "await fails()" in text
    assert "raise KeyError('k')" in text


def test_syntax_errors_are_shown_where_they_are(desk: Desk) -> None:
    error, text = failure_of(desk, "x = 1\ny = = 2", first_line=2)
    assert isinstance(error, SyntaxError)
    assert (error.filename, error.lineno) == ("<cell c1>", 3)
    assert "y = = 2" in text
    assert "^" in text
    assert "operations.py" not in text


def test_unknown_magics_say_so(desk: Desk) -> None:
    assert "no_such_magic" in str(failure_of(desk, "%no_such_magic")[0])


@pytest.mark.parametrize(
    ("source", "kind"),
    [("import sys\nsys.exit(3)", SystemExit), ("exit()", SystemExit), ("raise KeyboardInterrupt", KeyboardInterrupt)],
)
def test_leaving_is_an_error_of_the_cell_alone(desk: Desk, source: str, kind: type[BaseException]) -> None:
    assert type(failure_of(desk, source)[0]) is kind
    assert desk.run("1") == 1


def test_nobody_answers_input(desk: Desk) -> None:
    assert "input()" in str(failure_of(desk, "input('name? ')")[0])
    assert "getpass()" in str(failure_of(desk, "import getpass\ngetpass.getpass()")[0])


@pytest.mark.parametrize(
    "source",
    [
        "breakpoint()\n1",
        "import pdb\npdb.set_trace()\n1",
        "from IPython.core.debugger import set_trace\nset_trace()\n1",
        "def f():\n    breakpoint()\n    return 1\nf()",
    ],
)
def test_nobody_answers_a_debugger(desk: Desk, source: str) -> None:
    error, _ = failure_of(desk, source)
    assert isinstance(error, RuntimeError)
    assert "%fiber debug" in str(error)
    assert desk.run("2") == 2


def test_a_debugger_of_the_users_own(desk: Desk) -> None:
    def value_of(hook: str) -> object:
        desk.run(f"import os\nos.environ['PYTHONBREAKPOINT'] = {hook!r}\nvalue = breakpoint()")
        return desk.run("del os.environ['PYTHONBREAKPOINT']\nvalue")

    assert value_of("0") is None
    assert value_of("builtins.list") == []


def test_exceptions_of_classes_of_the_cell(desk: Desk) -> None:
    source = "class Special(ValueError):\n    def __init__(self, a, b): super().__init__(a)\nraise Special('x', 2)"
    error, _ = failure_of(desk, source)
    assert isinstance(error, ValueError)
    assert (type(error).__name__, str(error)) == ("Special", "x")


# ---- interrupts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "print('on')\nimport time\ntime.sleep(60)",
        "print('on')\nwhile True: pass",
        "print('on')\nimport asyncio\nawait asyncio.sleep(60)",
        "print('on')\nimport threading\nthreading.Event().wait()",
        "print('on')\n!sleep 60",
        "print('on')\n!trap '' INT; sleep 60\nwhile True: pass",
        "print('on')\nx = !sleep 60\nwhile True: pass",
        "%%bash\necho on\nsleep 60",
        "print('on')\nimport subprocess\nsubprocess.run(['sleep', '60'])",
    ],
)
def test_an_interrupt_stops_the_cell_at_once(desk: Desk, source: str) -> None:
    task = desk.begin(source)
    desk.hub.wait(lambda: "on" in desk.hub.text(task))
    began_at = time.monotonic()
    desk.hub.control(0, Interrupt(task=task))
    with pytest.raises(KeyboardInterrupt):
        desk.hub.value(task)
    assert time.monotonic() - began_at < 1
    assert desk.run("2 + 2") == 4


def test_interrupts_amid_output_lose_nothing_of_what_was_finished(desk: Desk) -> None:
    """Printing sends by itself when much has been printed, results of earlier calls included."""

    def quick_then_loud(n: int) -> int:
        while n == 9:
            print("x" * 70_000)
        return n

    for _ in range(10):
        tasks = desk.hub.send(0, quick_then_loud, *[(n,) for n in range(10)])
        desk.hub.wait(lambda task=tasks[9]: any(said.task == task for said in desk.hub.said))  # type: ignore[misc]
        desk.hub.control(0, Interrupt(task=tasks[9]))
        assert [desk.hub.value(task) for task in tasks[:9]] == list(range(9))
        with pytest.raises(KeyboardInterrupt):
            desk.hub.value(tasks[9])
        numbers = [said.sequence for said in desk.hub.said if said.task == tasks[9]]
        assert numbers == list(range(len(numbers)))


def test_an_interrupted_coroutine_cleans_up(desk: Desk) -> None:
    source = """
import asyncio
try:
    print("on")
    await asyncio.sleep(60)
finally:
    print("clean")
    cleaned = 1
"""
    task = desk.begin(source)
    desk.hub.wait(lambda: "on" in desk.hub.text(task))
    desk.hub.control(0, Interrupt(task=task))
    with pytest.raises(KeyboardInterrupt):
        desk.hub.value(task)
    assert "clean" in desk.hub.text(task)
    assert desk.run("cleaned") == 1


# ---- names ------------------------------------------------------------------------------------------------


def test_names_are_set_and_got(desk: Desk) -> None:
    values = {"a": serialize.dumps([1]), "b": serialize.dumps(lambda: a)}  # type: ignore[name-defined]  # noqa: F821
    desk.call(operations.set_names, values)
    assert desk.run("a + b()") == [1, 1]
    assert desk.call(operations.get_names, ["a"]) == [[1]]
    with pytest.raises(NameError, match="rank 0 has no name 'never'"):
        desk.call(operations.get_names, ["b", "never"])


def test_a_name_that_cannot_be_loaded_sets_none_of_them(desk: Desk) -> None:
    values = {"good": serialize.dumps(1), "bad": b"\x80\x05cno_such_module\nname\n."}
    with pytest.raises(ModuleNotFoundError) as caught:
        desk.call(operations.set_names, values)
    assert "pushed name 'bad'" in caught.value.__notes__[0]
    with pytest.raises(NameError):
        desk.call(operations.get_names, ["good"])


def test_a_name_whose_memory_is_lost_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere:
        def map(self, block: int) -> memoryview:
            raise serialize.BlockGone([block])

    context = SimpleNamespace(names_from=Nowhere())
    data = stored_frame(b"", 7, [0], [memoryview(b"abc")])
    with pytest.raises(ObjectLost, match="'big' was in the object store of this host, which has lost it: run the cell"):
        operations.load_names(context, {"big": data})  # type: ignore[arg-type]


def test_items(desk: Desk) -> None:
    cell = CellContext(cell_id="c", ranks=(0,), size=2, filename="<cell>")
    assert desk.call(operations.run_item, "n * rank + 1", "n", 5, cell) == 1
    assert desk.call(operations.run_cell, "n + 1", cell) == 6
    assert desk.call(operations.run_item, "a - b", "a,b", (5, 2), cell) == 3


def test_an_error_names_its_item(desk: Desk) -> None:
    cell = CellContext(cell_id="c", ranks=(0,), size=2, filename="<cell>")
    with pytest.raises(KeyError) as raised:
        desk.call(operations.run_item, "p['depth']", "p", {"trees": 10}, cell)
    assert raised.value.__notes__ == ["p = {'trees': 10}"]
    with pytest.raises(ZeroDivisionError) as raised_of_long:
        desk.call(operations.run_item, "1 / 0", "x", "word " * 1000, cell)
    assert len(raised_of_long.value.__notes__[0]) < 130
    for item in (5, (1, 2, 3)):
        with pytest.raises(ValueError, match=r"--each a,b: this item does not have 2 parts: \(?[15]"):
            desk.call(operations.run_item, "a", "a,b", item, cell)


def test_imports_and_places(desk: Desk) -> None:
    desk.call(operations.run_imports, "import math as m\nfrom os import path as p")
    assert desk.run("m.pi > 3, p.sep") == (True, "/")
    before, there = desk.run("import os, sys\nos.getcwd()"), str(desk.node.directory)
    desk.call(operations.adopt, there, ["/no/such/place", there])
    assert desk.run("os.getcwd(), sys.path[0], '/no/such/place' in sys.path") == (there, there, False)
    desk.call(operations.adopt, "/no/such/place", [])
    assert desk.run("os.getcwd()") == there
    desk.call(operations.adopt, before, [])


def test_nothing_of_this_works_outside_of_engines() -> None:
    with pytest.raises(ClusterError, match="function of engines"):
        operations.get_names(["a"])


def test_functions_of_the_notebook_see_names_of_the_engine(desk: Desk) -> None:
    desk.run("only_here = 40")
    assert desk.call(lambda: only_here + 2) == 42  # type: ignore[name-defined]  # noqa: F821


def test_the_context_of_an_engine(desk: Desk) -> None:
    desk.run("from fibernb.engine import context\ne = context.current()", engine=1)
    assert desk.run("e.rank, e.size, str(e.directory), e.engine", 1) == (1, 2, str(desk.node.directory), 1)
    assert desk.run("e.task", 1) == desk.task
    assert threading.current_thread() is threading.main_thread()
