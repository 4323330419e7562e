"""Rich forms of single values."""

from __future__ import annotations

import base64

import matplotlib.figure
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import HTML, SVG, Image, Latex, Markdown

from fibernb.notebook.value_pages import page_of

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg"><circle r="3"/></svg>'


class Several:
    def _repr_html_(self) -> str:
        return "<b>html</b>"

    def _repr_png_(self) -> bytes:
        return PNG


class Bundle:
    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        return {"text/plain": "text", "image/png": PNG}, {"image/png": {"width": 1}}


class Broken:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        raise self.error

    def _repr_html_(self) -> str:
        raise self.error

    def _repr_latex_(self) -> int:
        return 3


def picture_in(page: str | None) -> bytes:
    assert page is not None
    head, _, data = page.partition(";base64,")
    assert head.startswith('<img alt="')
    return base64.b64decode(data.partition('"')[0])


@pytest.mark.parametrize(
    ("value", "page"),
    [
        (HTML("<i>own</i>"), "<i>own</i>"),
        (Several(), "<b>html</b>"),
        (Latex("$a < b$"), "<div>$a &lt; b$</div>"),
        (Markdown("# <title>"), "<pre># &lt;title&gt;</pre>"),
        (Image(url="there.png"), '<img src="there.png"/>'),
        (1, None),
        (Several, None),
        (Broken(ValueError()), None),
        (Broken(SystemExit()), None),
    ],
)
def test_pages(value: object, page: str | None) -> None:
    assert page_of(value) == page


def test_pictures() -> None:
    assert picture_in(page_of(Image(PNG))) == PNG
    assert picture_in(page_of(Bundle())) == PNG
    assert b"<circle" in picture_in(page_of(SVG(DRAWING)))


def test_an_interrupt_is_for_the_user() -> None:
    with pytest.raises(KeyboardInterrupt):
        page_of(Broken(KeyboardInterrupt()))


def test_a_form_that_was_registered_for_a_type(shell: InteractiveShell) -> None:
    figure = matplotlib.figure.Figure()
    assert page_of(figure) is None
    assert shell.display_formatter is not None
    shell.display_formatter.formatters["image/png"].for_type(matplotlib.figure.Figure, lambda _: PNG)
    assert picture_in(page_of(figure)) == PNG
