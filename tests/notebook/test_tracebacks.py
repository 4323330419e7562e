"""What is shown of an error."""

from collections.abc import Callable, Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from fibernb.errors import CellTimeout, RemoteTraceback, WorkerDied
from fibernb.notebook.tracebacks import TracebackHook, render
from fibernb.notebook.usage import UsageError


@pytest.fixture
def show(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[str], str]]:
    """Runs a cell and gives what it printed."""
    hook = TracebackHook(shell)
    hook.install()

    def run(source: str) -> str:
        assert not shell.run_cell(source).success
        captured = capsys.readouterr()
        return captured.out + captured.err

    yield run
    hook.remove()


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
    assert "ValueError\x1b[0m (on ranks 0-3)\nTraceback" in shown
    assert "Cell In[1], line 3" in shown
    assert "direct cause" not in shown


def test_groups(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    group = ExceptionGroup("2 kinds", [remote(ValueError("a"), "remote a"), WorkerDied(3, "n", -9, "last words")])
    shell.push({"group": remote(group, "")})
    shown = show("raise group")
    assert "ExceptionGroup" in shown
    assert "remote a" in shown
    assert "killed by signal 9 (SIGKILL)" in shown
    assert "last words" in shown


def test_frames_of_the_user_are_shown(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    shell.push({"error": CellTimeout("after 3 s")})
    shown = show("def helper():\n    raise error\nhelper()")
    assert "in helper" in shown
    assert "raise error" in shown
    assert "interactiveshell.py" not in shown
    assert "CellTimeout\x1b[0m: after 3 s" in shown


def test_usage_errors_are_one_line(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    shell.push({"error": UsageError("%fiber has no verb 'x'")})
    assert show("raise error") == "\x1b[0;31mUsageError\x1b[0m: %fiber has no verb 'x'\n"


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
