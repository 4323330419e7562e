"""What is shown of an error."""

import asyncio
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
    assert "NameError\x1b[0m (on ranks 0-3): no name 'x'\n" in show("raise error")


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


def test_frames_of_the_user_are_shown(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    shell.push({"error": CellTimeout("after 3 s")})
    shown = show("def helper():\n    raise error\nhelper()")
    assert "in helper" in shown
    assert "raise error" in shown
    assert "interactiveshell.py" not in shown
    assert "CellTimeout\x1b[0m: after 3 s" in shown


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("fibernb.get(5)", "TypeError\x1b[0m: get takes"),
        ("fibernb.remote(abs)(1)", "TypeError\x1b[0m: abs is a remote function"),
        ("fibernb.remote(Counter)()", "TypeError\x1b[0m: Counter is an actor class"),
        ("fibernb.nothing_of_this_name", "AttributeError\x1b[0m: module 'fibernb' has no attribute"),
        ("fibernb.runtime_env.RuntimeEnv(env_var={})", "ConfigError\x1b[0m: runtime_env has no key 'env_var'"),
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


def test_usage_errors_are_one_line(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    shell.push({"error": UsageError("%fiber has no verb 'x'")})
    assert show("raise error") == "\x1b[0;31mUsageError\x1b[0m: %fiber has no verb 'x'\n"


def test_without_colours(shell: InteractiveShell, show: Callable[[str], str]) -> None:
    shell.push({"error": UsageError("%fiber has no verb 'x'")})
    shell.colors = "nocolor"
    assert show("raise error") == "UsageError: %fiber has no verb 'x'\n"


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
