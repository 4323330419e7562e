"""One JupyterLab and one browser for all of these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.ui.lab import ROOT, Lab, launch_browser, running_lab
from tests.ui.notebook import Notebook, load_lab

expect.set_options(timeout=30_000)  # machines that run tests are busy

PICTURES: Final = ROOT / "tests" / "ui" / "pictures"
"""Where the screenshots go. `make pictures` copies those that the documentation shows to docs/images."""


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright, launch_browser(playwright) as browser:
        yield browser


@pytest.fixture(scope="session")
def page(browser: Browser, lab: Lab) -> Page:
    """A window with JupyterLab in it."""
    page = browser.new_page(viewport={"width": 1000, "height": 900}, device_scale_factor=2)
    load_lab(page, lab)
    return page


Opener = Callable[[str, Sequence[str]], Notebook]
Picture = Callable[[str, Locator], None]


@pytest.fixture
def open_notebook(page: Page, lab: Lab) -> Iterator[Opener]:
    """Opens a notebook of these cells; it is closed at the end, and its kernel ended."""
    opened: list[Notebook] = []

    def open_one(name: str, cells: Sequence[str]) -> Notebook:
        opened.append(Notebook(page, lab, name, cells))
        return opened[-1]

    yield open_one
    for notebook in opened:
        notebook.close()


@pytest.fixture
def picture() -> Picture:
    """Takes a screenshot of a part of the page."""
    PICTURES.mkdir(parents=True, exist_ok=True)

    def take(name: str, part: Locator) -> None:
        part.screenshot(path=PICTURES / f"{name}.png", animations="disabled")

    return take
