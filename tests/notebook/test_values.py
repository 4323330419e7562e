"""Values by rank, as text and HTML."""

import numpy as np
import pandas as pd

from fibernb.notebook.values import MAX_CHARACTERS, MAX_HTML, as_html, as_text, describe


class Table:
    def __init__(self, content: str) -> None:
        self.content = content

    def _repr_html_(self) -> str:
        if self.content == "broken":
            raise ValueError(self.content)
        return f"<table>{self.content}</table>"

    def __repr__(self) -> str:
        return f"Table {self.content} <&>"


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


def test_equal_values_once() -> None:
    assert as_text([1, 1, 2, 1], [0, 1, 2, 5]) == "[0-1,5] 1\n[2] 2"
    assert as_text(["a"] * 256, range(256)) == "[0-255] 'a'"


def test_lines_are_indented() -> None:
    assert as_text([np.eye(2)], [3]) == "[3] array([[1., 0.],\n           [0., 1.]])"


def test_large_values() -> None:
    assert describe(np.zeros((100, 20), np.float32)) == "ndarray of shape (100, 20) and dtype float32"
    assert describe(np.float64(1.5)) == "np.float64(1.5)"
    assert describe(list(range(10_000))).endswith("49,\n ...]")
    long = describe("x" * 10_000)
    assert len(long) < MAX_CHARACTERS + 40
    assert long.endswith("… 8,002 characters more")


def test_types_are_values_too() -> None:
    assert describe(np.ndarray) == "numpy.ndarray"
    assert as_html([Table], [0]) is None


def test_a_broken_repr() -> None:
    assert describe(Unprintable()) == "<Unprintable whose repr raised RuntimeError>"


def test_many_different_values() -> None:
    lines = as_text(list(range(256)), range(256)).splitlines()
    assert len(lines) == 65
    assert lines[32] == "… 192 other values …"


def test_values_that_look_alike_are_shown_once() -> None:
    page = as_html([Table("a"), Table("b"), Table("a")], [0, 1, 4])
    assert page is not None
    assert page.count("<section>") == 2
    assert "<strong>[0,4]</strong>" in page


def test_html_only_where_a_value_has_some() -> None:
    assert as_html([1, 2], [0, 1]) is None
    assert as_html([Table("broken")], [0]) is None
    assert as_html([Table("a"), Table("broken")], [0, 1]) == (
        "<section><strong>[0]</strong><table>a</table></section>\n"
        "<section><strong>[1]</strong><pre>Table broken &lt;&amp;&gt;</pre></section>"
    )


def test_large_arrays_within_values() -> None:
    weights = {"w": np.zeros((300, 300)), "b": [np.arange(100), 7], "c": (np.eye(1),)}
    assert describe(weights) == (
        "{'w': ndarray of shape (300, 300) and dtype float64,\n"
        " 'b': [ndarray of shape (100,) and dtype int64, 7],\n"
        " 'c': (array([[1.]]),)}"
    )


def test_tables_abbreviate_themselves() -> None:
    assert "[100000 rows x 2 columns]" in describe(pd.DataFrame(np.zeros((100_000, 2))))
    assert "Length: 100000, dtype: float64" in describe(pd.Series(np.zeros(100_000)))


def test_attributes_that_raise() -> None:
    class Lazy:
        @property
        def shape(self) -> tuple[int, ...]:
            raise RuntimeError("not connected")

        def __repr__(self) -> str:
            return "lazy"

    assert describe(Lazy()) == "lazy"


def test_html_is_bounded() -> None:
    pages = [Table(f"{rank}" + "x" * (MAX_HTML // 3)) for rank in range(5)]
    shown = as_html(pages, range(5))
    assert shown is not None
    assert len(shown) < 1.1 * MAX_HTML
    assert shown.count("<section>") == 2
    assert shown.endswith("<p>… 3 other values …</p>")
    many = as_html([Table(f"{rank}") for rank in range(100)], range(100))
    assert many is not None
    assert many.endswith("<p>… 36 other values …</p>")


class Ends:
    """Ends whatever looks at it."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error

    def _repr_html_(self) -> str:
        raise self.error


def test_a_repr_that_exits_ends_nothing() -> None:
    assert as_text([Ends(SystemExit), 1], [0, 1]) == "[0] <Ends whose repr raised SystemExit>\n[1] 1"
    html = as_html([Ends(SystemExit), Table("a")], [0, 1])
    assert html is not None
    assert "whose repr raised SystemExit" in html


def test_an_interrupt_ends_the_looking_at_values_and_leaves_what_is_there() -> None:
    text = as_text([1, Ends(KeyboardInterrupt), 2, "a"], [0, 1, 2, 3])
    assert text.splitlines() == [
        "[0] 1",
        "[1] <Ends whose repr was interrupted>",
        "[2] <int whose repr was interrupted>",
        "[3] <str whose repr was interrupted>",
    ]
    assert as_html([Table("a"), Ends(KeyboardInterrupt)], [0, 1]) is None


def test_python_tells_why_it_has_no_repr() -> None:
    assert describe(10**5000).startswith("<int whose repr raised ValueError: Exceeds the limit (4300 digits)")
    nested: list[object] = []
    for _ in range(10_000):
        nested = [nested]
    assert describe(nested).startswith("<list whose repr raised RecursionError: maximum recursion depth exceeded")


def test_no_lone_surrogate_is_shown() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "\ud800" * 3 * MAX_CHARACTERS

    assert describe(Odd()).startswith("\\ud800\\ud800")
    assert as_html([Table("\ud800")], [0]) == "<section><strong>[0]</strong><table>\\ud800</table></section>"
