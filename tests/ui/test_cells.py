"""A cell in JupyterLab: its live view while it runs, how it is stopped, and what it leaves."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.ui.conftest import Opener, Picture
from tests.ui.notebook import PATIENCE_MS

LOAD = "%load_ext fibernb\n%fiber scale 4"
STEPS = """\
%%parallel
import pathlib, time, fibernb as fnb
for step in fnb.progress(range(4), desc="steps"):
    while not pathlib.Path(f"go-{step}").exists():
        time.sleep(0.01)
    print("step", step)
rank ** 2"""
ENDLESS = """\
%%parallel
import time
print("begun")
while True:
    time.sleep(0.01)"""
STUBBORN = """\
%%parallel
import time
has_begun = False
while True:
    try:
        if not has_begun: print("begun")
        has_begun = True
        time.sleep(0.01)
    except KeyboardInterrupt:
        if rank != 2: raise"""
IMPORT_TQDM = ("import pathlib, time, fibernb as fnb", "import pathlib, time\nfrom tqdm.auto import tqdm")


def test_the_live_view_moves_while_the_cell_runs(open_notebook: Opener, picture: Picture) -> None:
    notebook = open_notebook("moving.ipynb", [LOAD, STEPS])
    notebook.run(0)
    before = notebook.start(1)
    view = notebook.live_view(1)
    overall = view.get_by_role("progressbar", name="[all] overall")
    expect(view.get_by_role("img")).to_have_attribute("aria-label", "running: 0-3")
    expect(overall).to_have_attribute("value", "0")
    (notebook.path.parent / "go-0").touch()
    expect(overall).to_have_attribute("value", "4")
    expect(view).to_contain_text("[0-3] step 0")
    expect(view).to_contain_text("4 of 4 engines ready, 4 busy")
    (notebook.path.parent / "go-1").touch()
    expect(overall).to_have_attribute("value", "8")
    expect(view).to_contain_text(re.compile(r"8/16 it \(50%\), .* it/s, .* left"))
    picture("live-view", notebook.cell(1))
    (notebook.path.parent / "go-2").touch()
    (notebook.path.parent / "go-3").touch()
    notebook.finish(1, before)
    expect(view).to_have_count(0)
    expect(notebook.output(1)).to_contain_text("✓ 4 of 4 ranks")
    expect(notebook.output(1)).to_contain_text("[0-3] step 0")
    picture("cell-done", notebook.cell(1))


def test_cancel_stops_the_cell(open_notebook: Opener, picture: Picture) -> None:
    notebook = open_notebook("cancel.ipynb", [LOAD, ENDLESS, "%parallel rank ** 2"])
    notebook.run(0)
    before = notebook.start(1)
    expect(notebook.live_view(1)).to_contain_text("[0-3] begun")
    notebook.cancel_button(1).click()
    notebook.finish(1, before)
    expect(notebook.cancel_button(1)).to_have_count(0)
    expect(notebook.output(1)).to_contain_text("TaskCancelled")
    expect(notebook.output(1)).to_contain_text("✗ 4 of 4 ranks, 4 cancelled")
    picture("cancelled", notebook.cell(1))
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text("[3] 9")


def test_cancel_by_keyboard(open_notebook: Opener) -> None:
    notebook = open_notebook("keyboard.ipynb", [LOAD, ENDLESS])
    notebook.run(0)
    before = notebook.start(1)
    expect(notebook.live_view(1)).to_contain_text("[0-3] begun")
    notebook.page.keyboard.press("Escape")
    while not notebook.cancel_button(1).evaluate("button => button === document.activeElement"):
        notebook.page.keyboard.press("Tab")
    expect(notebook.cancel_button(1)).to_be_focused()
    notebook.page.keyboard.press("Enter")
    notebook.finish(1, before)
    expect(notebook.output(1)).to_contain_text("TaskCancelled")


def test_cancel_says_which_engines_did_not_stop(open_notebook: Opener) -> None:
    notebook = open_notebook("stubborn.ipynb", [LOAD, STUBBORN, "%parallel rank ** 2"])
    notebook.run(0)
    before = notebook.start(1)
    expect(notebook.live_view(1)).to_contain_text("[0-3] begun")
    notebook.cancel_button(1).click()
    notebook.finish(1, before)
    expect(notebook.output(1)).to_contain_text("✗ 4 of 4 ranks, 3 cancelled, 1 replaced (2)")
    expect(notebook.output(1)).to_contain_text("rank 2 did not stop and has a new engine")
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text("[3] 9")


def test_tqdm_on_engines(open_notebook: Opener) -> None:
    notebook = open_notebook(
        "tqdm.ipynb", [LOAD, STEPS.replace("go-", "bar-").replace("fnb.progress", "tqdm").replace(*IMPORT_TQDM)]
    )
    notebook.run(0)
    before = notebook.start(1)
    bar = notebook.live_view(1).get_by_role("progressbar", name="[2] steps")
    expect(bar).to_have_attribute("value", "0")
    (notebook.path.parent / "bar-0").touch()
    expect(bar).to_have_attribute("value", "1")
    for step in (1, 2, 3):
        (notebook.path.parent / f"bar-{step}").touch()
    notebook.finish(1, before)
    expect(notebook.output(1)).to_contain_text("✓ 4 of 4 ranks")


def test_256_engines(open_notebook: Opener, picture: Picture) -> None:
    cells = [LOAD.replace("4", "256"), STEPS.replace("go", "many"), "%%parallel\nprint('ready')"]
    notebook = open_notebook("many.ipynb", cells)
    notebook.run(0)
    expect(notebook.output(0)).to_contain_text("256 engines ready")
    before = notebook.start(1)
    view = notebook.live_view(1)
    expect(view.get_by_role("img")).to_have_attribute("aria-label", "running: 0-255", timeout=PATIENCE_MS)
    for step in range(3):
        (notebook.path.parent / f"many-{step}").touch()
        done = str(256 * (step + 1))
        overall = view.get_by_role("progressbar", name="[all] overall")
        expect(overall).to_have_attribute("value", done, timeout=PATIENCE_MS)
    picture("live-view-256", notebook.cell(1))
    (notebook.path.parent / "many-3").touch()
    notebook.finish(1, before)
    expect(notebook.output(1)).to_contain_text("✓ 256 of 256 ranks")
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text("[0-255] ready")


def test_a_rank_that_dies_is_shown_as_replaced(open_notebook: Opener, picture: Picture) -> None:
    dies = STEPS.replace("go", "survive").replace("import pathlib", "import os, pathlib")
    dies = dies.replace("    print(", "    if rank == 2: os._exit(3)\n    print(")
    notebook = open_notebook("dies.ipynb", [LOAD, dies])
    notebook.run(0)
    before = notebook.start(1)
    view = notebook.live_view(1)
    (notebook.path.parent / "survive-0").touch()
    expect(view.get_by_role("img")).to_have_attribute("aria-label", "running: 0-1,3; replaced: 2", timeout=PATIENCE_MS)
    picture("live-view-replaced", notebook.cell(1))
    for step in (1, 2, 3):
        (notebook.path.parent / f"survive-{step}").touch()
    notebook.finish(1, before)
    expect(notebook.output(1)).to_contain_text("WorkerDied")
    expect(notebook.output(1)).to_contain_text("✗ 4 of 4 ranks, 1 replaced (2)")
