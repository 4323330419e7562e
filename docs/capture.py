"""Takes the picture of the README: a real notebook, run in JupyterLab in a headless Chromium, as in tests/ui.

.venv/bin/python -m docs.capture docs/images/quickstart.png
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from tests.ui.lab import launch_browser, running_lab
from tests.ui.notebook import Notebook, load_lab

CELLS: Final = (
    "%load_ext fibernb\n%fiber scale 4",
    '%%parallel --into squares\nprint("ready")\nrank ** 2',
    """\
def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))""",
    """\
%%parallel --each start=range(0, 1_000_000, 125_000) --into counts
sum(is_prime(number) for number in range(start, start + 125_000))""",
    'f"{sum(counts):,} primes"',
    "%%parallel\n1 / (rank - 2)",
)


def take(picture: Path) -> None:
    """Run the notebook and photograph it."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        running_lab(Path(temporary)) as lab,
        sync_playwright() as playwright,
        launch_browser(playwright) as browser,
    ):
        page = browser.new_page(viewport={"width": 960, "height": 830}, device_scale_factor=2)
        load_lab(page, lab)
        notebook = Notebook(page, lab, "FiberNB.ipynb", CELLS)
        notebook.run(*range(len(CELLS)))
        picture.parent.mkdir(parents=True, exist_ok=True)
        page.locator(".jp-NotebookPanel-notebook").screenshot(path=picture)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.capture", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("picture", type=Path)
    take(parser.parse_args().picture)


if __name__ == "__main__":
    main()
