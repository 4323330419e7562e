"""What is left of a notebook's cells: when it is opened again, and when its kernel was restarted."""

from __future__ import annotations

import nbformat
from playwright.sync_api import Page, expect

from tests.ui.conftest import Opener, Picture
from tests.ui.lab import Lab
from tests.ui.notebook import PANEL, Notebook, load_lab
from tests.ui.test_cells import ENDLESS, LOAD

SLOW = "%%parallel\nimport time\ntime.sleep(1)\nprint('ready')\nrank ** 2"


def widgets_of(notebook: Notebook) -> list[str]:
    """The outputs in the file that only a kernel could show."""
    outputs = [output for cell in nbformat.read(notebook.path, as_version=4).cells for output in cell.outputs]
    return [kind for output in outputs for kind in output.get("data", {}) if "widget" in kind]


def test_a_saved_notebook_is_static(open_notebook: Opener, picture: Picture, page: Page, lab: Lab) -> None:
    notebook = open_notebook("saved.ipynb", [LOAD, SLOW, ENDLESS])
    notebook.run(0, 1)
    before = notebook.start(2)
    expect(notebook.live_view(2)).to_contain_text("[0-3] begun")
    notebook.command("notebook:interrupt-kernel")
    notebook.finish(2, before)
    notebook.save()
    assert widgets_of(notebook) == []
    notebook.close()
    load_lab(page, lab)
    again = open_notebook("saved.ipynb", [])
    expect(again.output(0)).to_contain_text("4 engines ready")
    expect(again.output(1)).to_contain_text("✓ 4 of 4 ranks")
    expect(again.output(1)).to_contain_text("[0-3] ready")
    expect(again.output(1)).to_contain_text("[3] 9")
    expect(again.output(2)).to_contain_text("✗ 4 of 4 ranks")
    expect(again.output(2)).to_contain_text("[0-3] begun")
    expect(page.locator(f"{PANEL} .jupyter-widgets")).to_have_count(0)
    expect(page.locator(f"{PANEL} .jp-Notebook")).not_to_contain_text("widget")
    picture("reopened", page.locator(".jp-NotebookPanel-notebook"))


def test_a_restarted_kernel_attaches(open_notebook: Opener, picture: Picture) -> None:
    cells = [LOAD, "%%parallel\nkept = rank * 100", "%load_ext fibernb\n%fiber attach", "%parallel kept"]
    notebook = open_notebook("restarted.ipynb", cells)
    notebook.run(0, 1)
    notebook.restart_kernel()
    notebook.run(2, 3)
    expect(notebook.output(3)).to_contain_text("[3] 300")
    picture("attached", notebook.page.locator(".jp-NotebookPanel-notebook"))
