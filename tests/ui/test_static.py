"""What cells leave in a notebook, wherever it is looked at, and when its kernel was killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Locator, Page, expect

from tests.ui.conftest import Opener, Picture
from tests.ui.lab import Lab
from tests.ui.notebook import PATIENCE_MS, Notebook, write_notebook
from tests.ui.test_cells import ENDLESS, LOAD
from tests.ui.test_lives import SLOW, widgets_of
from tests.ui.test_output import FIGURES

ERROR = "%%parallel\nimport time\ntime.sleep(1)\n1 / (rank - 2)"
LEFT = (
    *("✓ 4 of 4 ranks", "[0-3] ready", "[3] 9"),
    *("✗ 4 of 4 ranks, 1 failed", "ZeroDivisionError", "on rank 2 of 4"),
    *("✗ 4 of 4 ranks, 4 cancelled", "[0-3] begun", "KeyboardInterrupt"),
)


@pytest.fixture
def plain_page(browser: Browser) -> Iterator[Page]:
    """A window of its own, with no server behind it and no net."""
    with browser.new_context(viewport={"width": 1000, "height": 900}) as context:
        context.route("**/*", lambda route: route.abort())
        yield context.new_page()


def converted(notebook: Notebook, *, sanitized: bool) -> str:
    """The saved notebook as a page of HTML; GitHub, too, drops what is not plain."""
    html, _ = HTMLExporter(sanitize_html=sanitized).from_filename(str(notebook.path))
    return str(html)


def test_a_page_of_nbconvert_has_it_all(open_notebook: Opener, plain_page: Page, picture: Picture) -> None:
    notebook = open_notebook("converted.ipynb", [LOAD, SLOW, ERROR, ENDLESS, FIGURES])
    notebook.run(0, 1, 2, 4)
    before = notebook.start(3)
    expect(notebook.live_view(3)).to_contain_text("[0-3] begun")
    notebook.command("notebook:interrupt-kernel")
    notebook.finish(3, before)
    notebook.save()
    assert widgets_of(notebook) == []
    for sanitized in (False, True):
        plain_page.set_content(converted(notebook, sanitized=sanitized))
        for text in LEFT:
            expect(plain_page.locator("body")).to_contain_text(text)
        expect(plain_page.locator("img")).to_have_count(2)
        picture(f"nbconvert-{'sanitized' if sanitized else 'plain'}", plain_page.locator("body"))


def test_a_killed_kernel_leaves_what_is_known(open_notebook: Opener, plain_page: Page) -> None:
    notebook = open_notebook("killed.ipynb", [LOAD, "import os\nprint(os.getpid())", ENDLESS])
    notebook.run(0, 1)
    notebook.start(2)
    expect(notebook.live_view(2)).to_contain_text("[0-3] begun")
    os.kill(int(notebook.output(1).inner_text()), signal.SIGKILL)
    dialog = notebook.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("restart", ignore_case=True, timeout=PATIENCE_MS)
    dialog.locator(".jp-mod-accept").click()
    notebook.save()
    plain_page.set_content(converted(notebook, sanitized=True))
    expect(plain_page.locator("body")).to_contain_text("▶ 0 of 4 ranks")
    expect(plain_page.locator("body")).to_contain_text("no more is known")


def test_notebook_7(browser: Browser, lab: Lab, picture: Picture) -> None:
    path = lab.notebooks / "seven.ipynb"
    write_notebook(path, [LOAD, ENDLESS, "%parallel rank ** 2"])
    with browser.new_context(viewport={"width": 1000, "height": 900}) as context:
        page = context.new_page()
        page.goto(lab.address.replace("/lab", "/notebooks/seven.ipynb"), timeout=PATIENCE_MS)
        cells = page.locator(".jp-Notebook .jp-CodeCell")
        idle = page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
        expect(idle.first).to_be_attached(timeout=PATIENCE_MS)  # what is typed before the kernel is there is lost
        _run(page, cells.nth(0))
        expect(cells.nth(0)).to_contain_text("4 engines ready", timeout=PATIENCE_MS)
        _run(page, cells.nth(1))
        expect(cells.nth(1).locator(".jupyter-widgets").first).to_contain_text("[0-3] begun", timeout=PATIENCE_MS)
        picture("notebook-7", page.locator(".jp-Notebook"))
        cells.nth(1).get_by_role("button", name="Cancel").click()
        expect(cells.nth(1)).to_contain_text("✗ 4 of 4 ranks, 4 cancelled")
        expect(cells.nth(1).locator(".jupyter-widgets")).to_have_count(0)
        _run(page, cells.nth(2))
        expect(cells.nth(2)).to_contain_text("[3] 9")


def _run(page: Page, cell: Locator) -> None:
    cell.locator(".cm-content").click(timeout=PATIENCE_MS)
    page.keyboard.press("Control+Enter")
