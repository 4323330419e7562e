"""What an engine keeps of errors, and the debugger that looks at them, on real engines."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from cloudpickle import register_pickle_by_value

from fibernb.config import Config
from fibernb.core.messages import Interrupt
from fibernb.engine import operations, postmortem_pdb
from fibernb.engine.context import CellContext
from fibernb.engine.postmortem_pdb import Answer, Failure
from fibernb.errors import ClusterError
from tests.engine.conftest import NodeProcess

register_pickle_by_value(sys.modules[__name__])  # engines cannot import it


class Held:
    """What a frame holds."""


def divide(by: int) -> float:
    twice = by * 2
    return 1 / twice


def hold() -> None:
    held = Held()
    raise ValueError(type(held).__name__)


def alive() -> int:
    gc.collect()
    return sum(type(thing).__name__ == "Held" for thing in gc.get_objects())


class Bench:
    """Runs cells and calls on an engine."""

    def __init__(self, node: NodeProcess, engine: int) -> None:
        self.hub = node.hub
        self.engine = engine

    def call(self, function: Any, *args: Any) -> Any:
        return self.hub.call(self.engine, function, *args)

    def cell(self, source: str) -> Any:
        cell = CellContext(cell_id="c", ranks=(0,), size=1, filename="In[5]")
        return self.call(operations.run_cell, source, cell)

    def fail(self, source: str, error: type[BaseException] = ZeroDivisionError) -> None:
        with pytest.raises(error):
            self.cell(source)

    def keep_all(self) -> None:
        self.call(operations.adopt, "/", [], True)

    def failure(self) -> Failure | None:
        found = self.call(postmortem_pdb.last_failure)
        assert found is None or isinstance(found, Failure)
        return found

    def begin(self) -> Answer:
        answer = self.call(postmortem_pdb.begin)
        assert isinstance(answer, Answer)
        return answer

    def say(self, session: int, line: str) -> Answer:
        answer = self.call(postmortem_pdb.command, session, line)
        assert isinstance(answer, Answer)
        return answer


@pytest.fixture(scope="module")
def node_here() -> Iterator[NodeProcess]:
    running = NodeProcess(Config(lease_s=20.0))
    yield running
    running.end()


numbers = itertools.count()


@pytest.fixture
def bench(node_here: NodeProcess) -> Bench:
    """With an engine that has run nothing."""
    engine = next(numbers)
    node_here.hub.fork([engine])
    return Bench(node_here, engine)


def test_nothing_is_known_at_first(bench: Bench) -> None:
    assert bench.failure() is None
    assert bench.call(postmortem_pdb.begin) is None
    assert bench.call(postmortem_pdb.command, 1, "where") is None


def test_the_last_error_of_a_cell(bench: Bench) -> None:
    bench.fail("def f(a):\n    return a / 0\nf(1)")
    bench.fail("raise KeyError('later')", KeyError)
    failure = bench.failure()
    assert failure is not None
    assert (failure.told, failure.file, failure.line, failure.function) == ("KeyError: 'later'", "In[5]", 1, "")
    assert (failure.rank, failure.name, failure.is_interrupt) == (bench.engine, "run_cell", False)
    bench.cell("1 + 1")
    assert bench.failure() == failure


def test_an_error_without_frames_of_the_user_is_not_kept(bench: Bench) -> None:
    bench.fail("1 / 0")
    failure = bench.failure()
    bench.fail("x = [", SyntaxError)
    with pytest.raises(NameError):
        bench.call(operations.get_names, ["nowhere"])
    assert bench.failure() == failure


def test_errors_of_tasks_are_kept_for_notebooks_only(bench: Bench) -> None:
    with pytest.raises(ZeroDivisionError):
        bench.call(divide, 0)
    assert bench.failure() is None
    bench.keep_all()
    with pytest.raises(ZeroDivisionError):
        bench.call(divide, 0)
    failure = bench.failure()
    assert failure is not None
    assert (failure.name, failure.function) == ("divide", "divide")
    bench.call(operations.adopt, "/", [])  # as one does who wants nothing kept
    with pytest.raises(ZeroDivisionError):
        bench.call(divide, 0)
    later = bench.failure()
    assert later is not None
    assert later.task > failure.task


def test_frames_are_let_go_with_the_next_error(bench: Bench) -> None:
    with pytest.raises(ValueError, match="Held"):
        bench.call(hold)
    assert bench.call(alive) == 0
    bench.keep_all()
    for _ in range(3):
        with pytest.raises(ValueError, match="Held"):
            bench.call(hold)
        assert bench.call(alive) == 1
    bench.fail("1 / 0")
    assert bench.call(alive) == 0


def test_a_session_of_a_task(bench: Bench) -> None:
    bench.keep_all()
    with pytest.raises(ZeroDivisionError):
        bench.call(divide, 0)
    first = bench.begin()
    assert first.prompt == postmortem_pdb.PROMPT
    assert first.text.endswith("divide()\n-> return 1 / twice\n")
    assert bench.say(first.session, "p twice, by").text == "(0, 0)\n"
    assert bench.say(first.session, "quit").prompt == ""
    assert bench.call(postmortem_pdb.command, first.session, "p by") is None
    assert bench.begin().session > first.session


def test_a_session_outlasts_other_work(bench: Bench) -> None:
    bench.fail("def f(a):\n    return a / 0\nf(12)")
    session = bench.begin().session
    bench.fail("g = 5\nh = g / 0")
    assert bench.say(session, "p a").text == "12\n"
    assert "h = g / 0" in bench.begin().text


@pytest.mark.parametrize("line", ["continue", "c", "step", "next", "return", "exit", "EOF"])
def test_what_ends_a_session(bench: Bench, line: str) -> None:
    bench.fail("1 / 0")
    assert bench.say(bench.begin().session, line).prompt == ""
    assert bench.cell("import sys\nsys.gettrace() is None")


def test_statements_of_several_lines(bench: Bench) -> None:
    bench.fail("a = 3\n1 / 0")
    session = bench.begin().session
    assert bench.say(session, "for i in range(a):").prompt == postmortem_pdb.MORE
    assert bench.say(session, "    print(i)").prompt == postmortem_pdb.MORE
    answer = bench.say(session, "")
    assert (answer.text, answer.prompt) == ("0\n1\n2\n", postmortem_pdb.PROMPT)
    assert bench.say(session, "print((1,").prompt == postmortem_pdb.MORE
    assert bench.say(session, "2))").text == "(1, 2)\n"


def test_what_functions_print_is_in_the_answer(bench: Bench) -> None:
    bench.fail("def tell():\n    print('told')\n    return 4\n1 / 0")
    assert bench.say(bench.begin().session, "p tell()").text == "told\n4\n"


def test_long_answers_are_cut(bench: Bench) -> None:
    bench.fail("long = 'x' * 10**6\n1 / 0")
    answer = bench.say(bench.begin().session, "p long")
    assert len(answer.text) < 2 * postmortem_pdb.MAX_CHARACTERS
    assert answer.text.endswith(f"… {10**6 + 3 - postmortem_pdb.MAX_CHARACTERS:,} characters more\n")


def test_an_interrupt_of_a_command(bench: Bench) -> None:
    bench.fail("b = 4\n1 / 0")
    session = bench.begin().session
    line = "import sys, time; sys.__stdout__.write('here'); sys.__stdout__.flush(); time.sleep(600)"
    (task,) = bench.hub.send(bench.engine, postmortem_pdb.command, (session, line))
    bench.hub.wait(lambda: "here" in bench.hub.text(task))
    bench.hub.control(bench.engine, Interrupt(task=task))
    bench.hub.wait(lambda: task in bench.hub.results)
    assert bench.say(session, "p b").text.endswith("4\n")


def test_an_error_that_cannot_tell(bench: Bench) -> None:
    bench.fail("class Odd(Exception):\n    def __str__(self): return 1 / 0\nraise Odd", Exception)
    failure = bench.failure()
    assert failure is not None
    assert failure.told == "Odd: <no message: its __str__ raised ZeroDivisionError>"


def test_these_are_functions_of_engines() -> None:
    for function in (postmortem_pdb.last_failure, postmortem_pdb.begin):
        with pytest.raises(ClusterError, match="a function of engines"):
            function()
