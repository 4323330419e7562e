"""What the verbs print: text for people, or one JSON document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence


def show(value: object, text: str, as_json: bool) -> None:
    """Print ``value`` as JSON, or else ``text``."""
    print(json.dumps(value, indent=2) if as_json else text)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns of text, as wide as they need to be."""
    lines = [tuple(head), *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(map(str.ljust, line, widths)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def duration(seconds: float) -> str:
    """About how long, for people: ``45 s``, ``12 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
