"""fibernb.progress, and tqdm that reports as it does. In a process of its own, since tqdm is patched for good."""

from __future__ import annotations

import subprocess
import sys

import pytest

PRELUDE = """
from fibernb import progress as function
from fibernb.progress import LiveBar, progress, report_bars_to
from fibernb.engine.tqdm_bars import report_tqdm
bars = []
report_tqdm()
report_bars_to(bars.append)
def shown(bar):
    return (bar.description, bar.done, bar.total, bar.unit, bar.closed)
"""


def printed(program: str) -> tuple[str, str]:
    done = subprocess.run([sys.executable, "-c", PRELUDE + program], capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    "module", ["from tqdm import tqdm", "from tqdm.auto import tqdm", "from tqdm.notebook import tqdm"]
)
def test_bars_of_tqdm_are_reported_and_not_drawn(module: str) -> None:
    program = module + "\nfor i in tqdm(range(50), desc='work'): pass\nprint([shown(bar) for bar in bars])"
    assert printed(program) == ("[('work', 50, 50, 'it', True)]", "")


def test_manual_bars_and_nested_ones() -> None:
    program = """
from tqdm import tqdm, trange
with tqdm(total=10, unit="B") as bar:
    bar.update(3)
    for _ in trange(2, leave=False): pass
    bar.set_description("half"); bar.set_postfix(loss=1)
    bar.update(4)
    bar.refresh()
    print(shown(bars[0]))
print([shown(bar)[1:] for bar in bars])
tqdm.write("text")
"""
    out, err = printed(program)
    assert out.splitlines() == [
        "('half loss=1', 7, 10, 'B', False)",
        "[(7, 10, 'B', True), (2, 2, 'it', True)]",
        "text",
    ]
    assert err == ""


def test_a_bar_for_a_file_of_the_users_goes_there() -> None:
    program = """
import io
from tqdm import tqdm
file = io.StringIO()
for i in tqdm(range(3), file=file): pass
print(len(bars), "3/3" in file.getvalue())
"""
    assert printed(program)[0] == "0 True"


def test_disabled_bars_stay_silent() -> None:
    assert printed("from tqdm import tqdm\nprint(list(tqdm(range(2), disable=True)), bars)")[0] == "[0, 1] []"


def test_progress_counts_what_was_done() -> None:
    program = """
items = iter(progress([1, 2, 3], desc="d"))
next(items); next(items)
print(shown(bars[0]))
list(items)
print(shown(bars[0]), list(function(x for x in "ab")), shown(bars[1])[:3])
"""
    assert printed(program)[0].splitlines() == [
        "('d', 1.0, 3, 'it', False)",
        "('d', 3.0, 3, 'it', True) ['a', 'b'] ('', 2.0, None)",
    ]


def test_where_nobody_takes_reports_bars_are_those_of_tqdm() -> None:
    out, err = printed("report_bars_to(None)\nprint(list(progress(range(3), desc='local')))")
    assert out == "[0, 1, 2]"
    assert "local" in err
