"""What engines show, in JupyterLab: figures, tables, pages of the cluster; and the debugger."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from tests.ui.conftest import Opener, Picture
from tests.ui.notebook import PATIENCE_MS, Notebook
from tests.ui.test_cells import LOAD

FIGURES = """\
%%parallel -w 0:2
%matplotlib inline
import numpy as np
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(3, 1.2))
axes.plot(np.arange(50), np.sin(np.arange(50) / (rank + 2)));"""
TABLES = """\
%%parallel
import pandas as pd
from IPython.display import HTML, display
display(HTML("<b>alike</b>"))
pd.DataFrame({"rank": [rank], "square": [rank**2]})"""
WORK = """\
%%parallel --each number=range(24)
import time
time.sleep(number % 5 / 50)"""
FAILS = """\
%%parallel
shares = {"north": 0.75, "south": 0.5}
def share_of(region):
    return 1 / (shares[region] - 0.5)
share_of(["north", "south"][rank % 2])"""


def say(notebook: Notebook, index: int, words: str) -> None:
    """Answer what a cell asks for."""
    line = notebook.cell(index).locator(".jp-Stdin-input").last  # that of the question before may still be there
    expect(line).to_be_editable()
    line.fill(words)
    line.press("Enter")


def shown_images(part: Locator) -> list[tuple[int, int]]:
    """The sizes of the pictures that are there and could be loaded."""
    sizes = part.locator(".jp-RenderedImage img").evaluate_all(
        "images => images.map(image => [image.naturalWidth, image.naturalHeight])"
    )
    return [(width, height) for width, height in sizes]


def test_figures_arrive_by_rank(open_notebook: Opener, picture: Picture) -> None:
    notebook = open_notebook("figures.ipynb", [LOAD, FIGURES])
    notebook.run(0, 1)
    expect(notebook.output(1).locator(".jp-RenderedImage img")).to_have_count(2, timeout=PATIENCE_MS)
    assert all(width > 100 and height > 50 for width, height in shown_images(notebook.output(1)))
    picture("figures", notebook.cell(1))


def test_tables_are_tables_and_what_is_alike_is_shown_once(open_notebook: Opener, picture: Picture) -> None:
    notebook = open_notebook("tables.ipynb", [LOAD, TABLES])
    notebook.run(0, 1)
    expect(notebook.output(1).locator("b", has_text="alike")).to_have_count(1)
    expect(notebook.output(1).locator("table")).to_have_count(4)
    expect(notebook.output(1)).to_contain_text("square")
    picture("tables", notebook.cell(1))


def test_the_timeline_is_a_picture(open_notebook: Opener, picture: Picture) -> None:
    notebook = open_notebook("timeline.ipynb", [LOAD, WORK, "%fiber timeline"])
    notebook.run(0, 1, 2)
    expect(notebook.output(2).locator("svg").first).to_be_visible()
    picture("timeline", notebook.cell(2))


def test_the_page_of_the_cluster(open_notebook: Opener, picture: Picture) -> None:
    notebook = open_notebook("status.ipynb", [LOAD, WORK, "%fiber"])
    notebook.run(0, 1, 2)
    expect(notebook.output(2)).to_contain_text("4 ready")
    picture("status", notebook.cell(2))


def test_the_debugger_asks_in_the_cell(open_notebook: Opener, picture: Picture) -> None:
    notebook = open_notebook("debug.ipynb", [LOAD, FAILS, "%fiber debug", "%parallel sorted(shares)"])
    notebook.run(0, 1)
    expect(notebook.output(1)).to_contain_text("ZeroDivisionError")
    before = notebook.start(2)
    for words, answer in (("p region", "'south'"), ("p shares", "{'north': 0.75, 'south': 0.5}"), ("up", "rank % 2")):
        say(notebook, 2, words)
        expect(notebook.output(2)).to_contain_text(answer)
    picture("debug", notebook.cell(2))
    say(notebook, 2, "quit")
    notebook.finish(2, before)
    notebook.run(3)
    expect(notebook.output(3)).to_contain_text("[0-3] ['north', 'south']")
