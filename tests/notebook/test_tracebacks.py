"""What is shown of an error."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from IPython.core.interactiveshell import InteractiveShell

from fibernb.client.cells import loaded_value
from fibernb.errors import CellTimeout, RemoteTraceback, WorkerDied, annotate
from fibernb.notebook.sendable import MAX_CHARACTERS
from fibernb.notebook.snapshot import without_escapes
from fibernb.notebook.tracebacks import MAX_KINDS, TracebackHook, _entries, render
from fibernb.notebook.usage import UsageError


@pytest.fixture
def show_colours(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[str], str]]:
    """Runs a cell and gives what it printed."""
    hook = TracebackHook(shell)
    hook.install()

    def run(source: str) -> str:
        assert not shell.run_cell(source).success
        captured = capsys.readouterr()
        return captured.out + captured.err

    yield run
    hook.remove()


@pytest.fixture
def show(show_colours: Callable[[str], str]) -> Callable[[str], str]:
    """The same without colours."""
    return lambda source: without_escapes(show_colours(source))


def remote(error: Exception, text: str, note: str = "") -> Exception:
    error.__cause__ = RemoteTraceback(text)
    if note:
        error.add_note(note)
    return error


def test_an_error_of_engines(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    text = 'Traceback (most recent call last):\n  File "In[1]", line 3\n    f(0)\nValueError: bad'
    shell.push({"error": remote(ValueError("bad"), text, "on ranks 0-3")})
    shown = show("raise error")
    assert shown.count("ValueError: bad") == 1
    assert "ValueError (on ranks 0-3)\nTraceback" in shown
    assert "Cell In[1], line 3" in shown
    assert "direct cause" not in shown


def test_functions_of_the_notebook_are_said_to_be_of_its_cells(
    shell: InteractiveShell, show: Callable[[str], str]
) -> None:
    shell.run_cell("def f():\n    return 1", store_history=True)
    code = shell.user_ns["f"].__code__
    text = f'Traceback (most recent call last):\n  File "{code.co_filename}", line 2, in f\nValueError: File "a"'
    shell.push({"error": remote(ValueError("bad"), f'{text}\n  File "/other/place.py", line 1')})
    shown = show("raise error")
    assert "  Cell In[1], line 2, in f" in shown
    assert 'ValueError: File "a"' in shown
    assert '  File "/other/place.py", line 1' in shown


def test_one_line_of_an_engine_is_shown_once(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    shell.push({"error": remote(NameError("no name 'x'"), "NameError: no name 'x'\n", "on ranks 0-3")})
    assert "NameError (on ranks 0-3): no name 'x'\n" in show("raise error")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, asyncio.CancelledError])
def test_an_interrupt_shows_nothing_of_what_it_hit(
    kind: type[BaseException], shell: InteractiveShell, show: Callable[[str], str]
) -> None:
    source = (
        "from fibernb.notebook.each import EachHandle\n"
        "class Session:\n    def wait(self, *_):\n        hit()\n"
        "def hit():\n    raise kind\n"
        "EachHandle(Session(), [], keep_errors=False).result()"
    )
    shell.push({"kind": kind})
    shown = show(source)
    assert "KeyboardInterrupt" in shown
    assert "keep_errors=False).result()" in shown
    assert "hit" not in shown
    assert "each.py" not in shown


def test_groups(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    members = [remote(ValueError("a"), "remote\nremote a"), WorkerDied(3, "n", -9, "last words")]
    group = ExceptionGroup("2 kinds", members)
    shell.push({"group": remote(group, "")})
    shown = show("raise group")
    assert "ExceptionGroup" in shown
    assert "remote a" in shown
    assert "killed by signal 9 (SIGKILL)" in shown
    assert "last words" in shown


def test_a_group_that_an_engine_raised_is_shown_as_it_was_there(
    shell: InteractiveShell, show: Callable[[str], str]
) -> None:
    text = '  + Exception Group Traceback\n  |   File "In[3]", line 5, in f\n  | ExceptionGroup: own (2 sub-exceptions)'
    group = ExceptionGroup("own", [ValueError("a"), ValueError("b")])
    shell.push({"group": remote(group, text, "on rank 1 of 3")})
    shown = show("raise group")
    assert "ExceptionGroup (on rank 1 of 3)\n  + Exception Group Traceback\n  |   Cell In[3], line 5" in shown
    assert shown.count("own (2 sub-exceptions)") == 1


def test_many_kinds_of_errors_are_cut(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    members = [remote(ValueError(str(rank)), f"Traceback\nValueError: {rank}") for rank in range(1000)]
    shell.push({"group": ExceptionGroup("1000 of 1000 ranks failed in 1000 ways", members)})
    shown = show("raise group")
    assert shown.count("Traceback\n") == MAX_KINDS
    assert shown.endswith(f"… {1000 - MAX_KINDS} errors more: sys.last_value.exceptions has all\n")


def test_notes_of_the_user_are_shown_once(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    error = remote(ValueError("bad"), "Traceback\nValueError: bad\nmine", "on rank 1 of 3")
    error.add_note("mine")
    shell.push({"error": error})
    assert show("raise error").count("mine") == 1


def test_an_error_that_cannot_tell_its_message(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    shell.run_cell("class Odd(Exception):\n    def __str__(self): return 1 / 0\nerror = Odd()")
    remote(shell.user_ns["error"], "Traceback\nOdd: <exception str() failed>")
    assert "Odd: <exception str() failed>" in show("raise error")
    assert isinstance(sys.last_value, shell.user_ns["Odd"])
    assert str(sys.last_value) == "<no message: its __str__ raised ZeroDivisionError>"


def test_the_debugger_follows_an_error_of_ours(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    shell.push({"error": remote(ValueError("bad"), "Traceback\nValueError: bad")})
    show("def inner():\n    raise error\ninner()")
    names = [entry.tb_frame.f_code.co_name for entry in _entries(sys.last_traceback)]
    assert names == ["<module>", "inner"]
    assert sys.last_value is not None
    assert shell.InteractiveTB.tb is sys.last_traceback is sys.last_value.__traceback__


def test_a_debugger_that_opens_by_itself(
    shell: InteractiveShell, show: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[bool] = []

    def debug(*, force: bool) -> None:
        forced.append(force)

    monkeypatch.setattr(shell, "debugger", debug)
    monkeypatch.setattr(shell, "_call_pdb", True)
    shell.push({"error": remote(ValueError("bad"), "Traceback\nValueError: bad")})
    show("raise error")
    assert forced == [True]


def test_libraries_are_unfolded_on_demand(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    text = 'Traceback\n  File "In[1]", line 3\n    f()\n  File "/site-packages/a.py", line 7, in g\n    h()\nValueError'
    shell.push({"error": remote(ValueError(), text)})
    assert "  … a.py, line 7, in g\nValueError" in show("raise error")
    assert '  File "/site-packages/a.py", line 7, in g\n    h()\nValueError' in show("%tb Verbose\nraise error")


def test_frames_of_the_user_are_shown(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    shell.push({"error": CellTimeout("after 3 s")})
    shown = show("def helper():\n    raise error\nhelper()")
    assert "in helper" in shown
    assert "raise error" in shown
    assert "interactiveshell.py" not in shown
    assert "CellTimeout: after 3 s" in shown


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("fibernb.get(5)", "TypeError: get takes"),
        ("fibernb.remote(abs)(1)", "TypeError: abs is a remote function"),
        ("fibernb.remote(Counter)()", "TypeError: Counter is an actor class"),
        ("fibernb.nothing_of_this_name", "AttributeError: module 'fibernb' has no attribute"),
        ("fibernb.runtime_env.RuntimeEnv(env_var={})", "ConfigError: runtime_env has no key 'env_var'"),
    ],
)
def test_what_we_refuse_shows_none_of_our_frames(
    cell: str, says: str, shell: InteractiveShell, show: Callable[[str], str]
) -> None:
    shell.run_cell("import fibernb\nimport fibernb.runtime_env\nclass Counter: pass")
    shown = show(f"def helper():\n    {cell}\nhelper()")
    assert says in shown
    assert f"    {cell}\n" in shown
    assert "in helper" in shown
    assert "/fibernb/" not in shown
    assert len(shown.splitlines()) == 6


def test_managers_of_contexts_are_left_out(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    cell = "import contextlib\n@contextlib.contextmanager\ndef inside():\n    yield\nwith inside():\n    raise error"
    shell.push({"error": CellTimeout("after 3 s")})
    shown = show(cell)
    assert "    raise error" in shown
    assert "contextlib.py" not in shown


def test_mistakes_of_ours_are_shown_in_full(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    shell.push({"render": render})
    assert "tracebacks.py" in show("render(ValueError(), 5, str)")


def test_usage_errors_are_one_line(shell: InteractiveShell, show_colours: Callable[[str], str]) -> None:
    shell.push({"error": UsageError("%fiber has no verb 'x'")})
    assert show_colours("raise error") == "\x1b[0;31mUsageError\x1b[0m: %fiber has no verb 'x'\n"


def test_without_colours(shell: InteractiveShell, show_colours: Callable[[str], str]) -> None:
    shell.push({"error": UsageError("%fiber has no verb 'x'")})
    shell.colors = "nocolor"
    assert show_colours("raise error") == "UsageError: %fiber has no verb 'x'\n"


def test_other_errors_are_left_alone(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    assert "ZeroDivisionError" in show("1/0")
    assert "-----" in show("1/0")
    assert render(ValueError("x"), None, str) is None
    assert render(KeyboardInterrupt(), None, str) is None


def test_nothing_to_show(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    hook = TracebackHook(shell)
    hook.show()
    assert "No traceback available" in capsys.readouterr().err


def test_an_empty_text(shell: InteractiveShell) -> None:
    assert render(CellTimeout(), None, str) == ["\x1b[0;31mCellTimeout\x1b[0m"]


def test_removal(shell: InteractiveShell) -> None:
    before = shell.showtraceback
    hook = TracebackHook(shell)
    hook.install()
    hook.remove()
    assert shell.showtraceback == before
    hook.install()
    shell.showtraceback = other = lambda *_: None  # type: ignore[method-assign]
    hook.remove()
    assert shell.showtraceback is other


class Odd(Exception):
    """Says what it is told to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a\ud800"),
        Odd("a\ud800"),
        OSError(2, "a\ud800"),
        OSError(2, "a\ud800", "file"),
        ImportError("a\ud800"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_no_message_can_carry_is_escaped(
    shell: InteractiveShell, show: Callable[[str], str], error: Exception
) -> None:
    """Otherwise the kernel's answer would never be sent, and the cell would not end."""
    shell.push({"error": remote(error, "Traceback (most recent call last):\nE: a\ud800", "note \ud800")})
    shown = show("raise error")
    shown.encode()
    str(error).encode()
    assert "a\\ud800" in str(error)
    assert "a\\ud800" in shown
    assert "note \\ud800" in shown
    assert type(error).__name__ in shown


def test_a_message_and_notes_of_any_length_are_shown_in_short(
    shell: InteractiveShell, show: Callable[[str], str]
) -> None:
    error = remote(ValueError("x" * 3_000_000), "", "n" * 3_000_000)
    shell.push({"error": error})
    shown = show("raise error")
    assert len(shown) < 4 * MAX_CHARACTERS
    assert " characters left out … " in shown
    assert len(str(error)) < 2 * MAX_CHARACTERS


@pytest.mark.parametrize("notes", ["abc", 5, [1, None, "told"]], ids=repr)
def test_notes_that_are_none(shell: InteractiveShell, show: Callable[[str], str], notes: object) -> None:
    error = remote(ValueError("bad"), "Traceback (most recent call last):\nValueError: bad")
    error.__notes__ = notes  # type: ignore[assignment]
    annotate(error, "on rank 1 of 2")
    shell.push({"error": error})
    assert "on rank 1 of 2" in show("raise error")


def test_a_value_that_cannot_be_loaded_is_the_users_own_affair(
    shell: InteractiveShell, show: Callable[[str], str]
) -> None:
    def result() -> None:
        shell.user_ns["bad"]()

    shell.run_cell("def bad(): raise ValueError('not here')")
    shell.push({"load": lambda: loaded_value(3, cast(Any, SimpleNamespace(result=result)))})
    shown = show("load()")
    assert "not here" in shown
    assert "while loading the value of rank 3" in shown
    assert "fibernb/client" not in shown
