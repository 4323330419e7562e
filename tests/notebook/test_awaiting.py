import pytest
from IPython.core.interactiveshell import InteractiveShell

from fibernb.notebook.awaiting import AWAITED, Awaiting, hears_clicks


@pytest.fixture
def awaiting(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> Awaiting:
    """In a shell that belongs to a kernel."""
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    return Awaiting(shell)


@pytest.mark.parametrize(
    ("lines", "arguments"),
    [
        (["%%parallel\n", "1 + 1\n"], "('', '1 + 1\\n')"),
        (["%%parallel -w 0 --into x\n", "a\n", "b"], "('-w 0 --into x', 'a\\nb')"),
        (["%%parallel \t --each s=['it', \"is\"]  \n", "s"], "('--each s=[\\'it\\', \"is\"]', 's')"),
    ],
)
def test_a_parallel_cell_is_awaited(awaiting: Awaiting, lines: list[str], arguments: str) -> None:
    assert awaiting(lines) == [f"{AWAITED}{arguments}\n"]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["1 + 1\n"],
        ["%%parallel\n"],
        ["%%parallel\n", "  \n"],
        ["%%parallelism\n", "1\n"],
        ["%%time\n", "%%parallel\n", "1\n"],
        ["%parallel rank\n"],
        ["x = 1\n", "%%parallel\n"],
    ],
)
def test_other_cells_stay_as_they_are(awaiting: Awaiting, lines: list[str]) -> None:
    assert awaiting(lines) == lines


def test_inside_of_another_cell_nothing_is_awaited(awaiting: Awaiting) -> None:
    lines = ["%%parallel\n", "1\n"]
    awaiting.end_cell()  # of the cell that loaded the extension
    awaiting.begin_cell()
    assert awaiting(lines) == lines
    awaiting.begin_cell()
    awaiting.end_cell()
    assert awaiting(lines) == lines
    awaiting.end_cell()
    assert awaiting(lines) != lines


def test_where_cells_cannot_await(awaiting: Awaiting, shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["%%parallel\n", "1\n"]
    monkeypatch.setattr(shell, "autoawait", False)
    assert awaiting(lines) == lines
    monkeypatch.setattr(shell, "autoawait", True)
    monkeypatch.delattr(shell, "kernel")
    assert awaiting(lines) == lines


@pytest.mark.parametrize(
    ("version", "awaited", "blocking"),
    [
        ("6.31.0", False, False),
        ("7.0.0a1", True, True),
        ("7.3.0", True, True),
        ("7.4.0", True, False),
        ("8.0", True, False),
    ],
)
def test_which_kernels_hear_clicks(
    version: str, awaited: bool, blocking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda package: {"ipykernel": version}[package])
    assert hears_clicks(awaited=True) is awaited
    assert hears_clicks(awaited=False) is blocking


def test_a_value_that_could_not_be_shown_does_not_make_later_cells_failures(
    awaiting: Awaiting, shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel would tell of those that await."""
    monkeypatch.setattr(shell, "_last_traceback_during_displayhook", True, raising=False)
    monkeypatch.setattr(shell.displayhook, "msg", {"content": {}}, raising=False)
    awaiting.end_cell()
    awaiting.begin_cell()
    assert vars(shell)["_last_traceback_during_displayhook"] is False
    assert vars(shell.displayhook)["msg"] is None


def test_shells_of_terminals_have_no_such_marks(awaiting: Awaiting, shell: InteractiveShell) -> None:
    awaiting.begin_cell()
    assert "_last_traceback_during_displayhook" not in vars(shell)
