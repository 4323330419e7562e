"""The live view in JupyterLab's themes, which axe-core finds nothing wrong with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from fibernb.model import Bar
from fibernb.notebook.live_page import live_html
from fibernb.notebook.snapshot import snapshot_of_ranks
from tests.ui.conftest import Opener, Picture
from tests.ui.test_cells import LOAD

ALL_STATES = """\
%%parallel
import os, pathlib, time, fibernb as fnb
for step in fnb.progress(range(4), desc="steps"):
    print("step", step)
    if step == 1 and rank == 1: raise ValueError("a failure")
    if step == 1 and rank == 2: os._exit(3)
    if step == 1 and rank == 3: break
    while step == 2 and not pathlib.Path("end").exists():
        time.sleep(0.01)"""
KINDS = ("done", "done", "done", "running", "running", "waiting", "failed", "cancelled", "lost", "replaced")
STATES = "running: 0; done: 3; failed: 1; replaced: 2"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark", "high-contrast": "JupyterLab Dark High Contrast"}


@pytest.fixture
def light_afterwards(page: Page) -> Iterator[None]:
    yield
    set_theme(page, "JupyterLab Light")


def set_theme(page: Page, theme: str) -> None:
    page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme}).then(() => true)", theme
    )
    expect(page.locator(f'body[data-jp-theme-name="{theme}"]')).to_have_count(1)


@pytest.mark.usefixtures("light_afterwards")
def test_axe_finds_nothing_in_any_theme(page: Page, open_notebook: Opener, picture: Picture) -> None:
    notebook = open_notebook("themes.ipynb", [LOAD, ALL_STATES])
    notebook.run(0)
    before = notebook.start(1)
    view = notebook.live_view(1)
    expect(view.get_by_role("img")).to_have_attribute("aria-label", STATES, timeout=20_000)
    for name, theme in THEMES.items():
        set_theme(page, theme)
        found = Axe().run(page, context=".jp-Notebook .jp-OutputArea:has(.jupyter-widgets)")
        assert found.violations_count == 0, found.generate_report()
        assert found.response["passes"], "it looked at something"
        picture(f"theme-{name}", notebook.cell(1))
    (notebook.path.parent / "end").touch()
    notebook.finish(1, before)


@pytest.mark.parametrize("ranks", [4, 64, 256, 1024])
@pytest.mark.parametrize("width", [1000, 400])
def test_every_number_of_ranks_fits_the_page(browser: Browser, picture: Picture, ranks: int, width: int) -> None:
    states = {rank: KINDS[rank * 7919 % 1009 % len(KINDS)] for rank in range(ranks)}
    bars = [(rank, Bar(bar=0, description="steps", done=rank % 7, total=7, elapsed_s=3)) for rank in range(ranks)]
    lines = {rank: f"a line of rank {rank}" for rank in range(ranks)}
    shown = live_html(snapshot_of_ranks(states, elapsed_s=3, bars=bars, last_lines=lines))
    with browser.new_context(viewport={"width": width, "height": 900}) as context:
        view = context.new_page()
        view.set_content(f"<html lang='en'><title>Ranks</title><main><h1>Ranks</h1>{shown}</main></html>")
        assert view.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(view)
        assert found.violations_count == 0, found.generate_report()
        picture(f"ranks-{ranks}-{width}", view.locator("main"))
