"""The page of ``%fiber`` for a notebook. Pure."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable
from typing import Final

from fibernb.core.messages import Status
from fibernb.notebook import rank_cells
from fibernb.notebook.rank_cells import Look
from fibernb.notebook.snapshot import whole_duration
from fibernb.notebook.status_page import MORE, About, engine_table, facts, holdings, seat_states, troubles

SEATS: Final = Look(
    shapes={
        "idle": "h8v8h-8zm1 1v6h6v-6z",  # a square with nothing in it
        "busy": "m1 0 7 4-7 4z",  # a triangle
        "starting": "m3 3h2v2h-2z",  # a dot
        "without an engine": "m0 3h8v2h-8z",  # a bar
        "leaving": "m4 0 4 4-4 4-4-4z",  # a diamond
        "lost": "m0 2 2-2 2 2 2-2 2 2-2 2 2 2-2 2-2-2-2 2-2-2 2-2z",  # a cross
    },
    colours={
        "idle": "var(--jp-success-color1, #388e3c)",
        "busy": "var(--jp-brand-color1, #1976d2)",
        "starting": "currentColor",
        "without an engine": "var(--jp-warn-color0, #e65100)",
        "leaving": "currentColor",
        "lost": "var(--jp-error-color1, #d32f2f)",
    },
)
_TROUBLE: Final = (
    "border-left: 4px solid var(--jp-warn-color0, #e65100); padding-left: 0.6em; margin: 4px 0; white-space: pre-wrap"
)
_CODE: Final = "font-family: var(--jp-code-font-family, monospace)"


def as_html(status: Status, about: About) -> str:
    """The cluster in one line, its seats as a picture, what is in the way, and the rest as a table and folds."""
    seats = seat_states(status)
    parts = [
        f"<div><strong>{html.escape(about.name)}</strong>: {html.escape(headline(status))}</div>",
        rank_cells.picture(seats, SEATS) if seats else "",
        _legend(seats.values()),
        *(_trouble(heading, text) for heading, text in troubles(status)),
        _table(about.name, [fact for fact in facts(status, about) if fact[0] != "seats"]),
        _fold(_counted(len(status.engines), "engine"), engine_table(status.engines, about.beside)),
        *(_fold(heading, text) for heading, text in holdings(about)),
        f'<div>more: {", ".join(f"""<span style="{_CODE}">{more}</span>""" for more in MORE)}</div>',
    ]
    return f'<div style="line-height: 1.5">{"".join(parts)}</div>'


def headline(status: Status) -> str:
    """``3 of 4 engines ready, 1 busy, 12,345 tasks queued, up 1 min 15 s``."""
    engines = _counted(status.seats, "engine")
    ready = f"{engines} ready" if status.ready == status.seats else f"{status.ready:,} of {engines} ready"
    queued = f"{_counted(status.queued, 'task')} queued"
    return f"{ready}, {status.busy:,} busy, {queued}, up {whole_duration(status.uptime_s)}"


def _legend(states: Iterable[str]) -> str:
    counts = Counter(states)
    items = "".join(
        f'<span style="margin-right: 1.2em">{rank_cells.key(state, SEATS)} {counts[state]:,} {state}</span>'
        for state in SEATS.shapes
        if counts[state]
    )
    return f"<div>{items}</div>" if items else ""


def _trouble(heading: str, text: str) -> str:
    return f'<div style="{_TROUBLE}"><strong>{heading}</strong>\n{html.escape(text)}</div>'


def _table(name: str, rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(
        f'<tr><th scope="row" style="text-align: left; vertical-align: top">{html.escape(heading)}</th>'
        f'<td style="text-align: left; white-space: pre-wrap">{html.escape(text)}</td></tr>'
        for heading, text in rows
    )
    return f'<table aria-label="Cluster {html.escape(name)}"><tbody>{cells}</tbody></table>'


def _fold(heading: str, text: str) -> str:
    return f"<details><summary>{html.escape(heading)}</summary><pre>{html.escape(text)}</pre></details>"


def _counted(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
