"""Which engine ran what, and when: spans arranged into rows and slices of time, and written as text. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fibernb.model import Rank
from fibernb.notebook.grouping import format_ranks
from fibernb.notebook.rows import SpanRow
from fibernb.notebook.snapshot import duration

MAX_SHADES: Final = 7  # functions that are told apart; all others share one shade more
OTHERS: Final = "others"
TEXT_ROWS: Final = 32
TEXT_SLICES: Final = 60
LETTERS: Final = "ABCDEFG*"
IDLE: Final = "·"


class Share(NamedTuple):
    """What one function took of the time."""

    name: str
    calls: int
    busy_s: float
    failures: int


class Slice(NamedTuple):
    """What a row did in one slice of time: mostly this shade, busy for this part of it."""

    shade: int
    busy: float  # from 0 to 1


class Row(NamedTuple):
    """One engine, or several neighbours."""

    label: str
    engines: int
    busy: float  # of the whole time, from 0 to 1
    slices: list[Slice | None]  # None: idle


class Timeline(NamedTuple):
    shares: list[Share]  # by shade; longest first, the others last
    rows: list[Row]
    load: list[float]  # of all engines by slice, from 0 to 1
    seconds: float

    @property
    def engines(self) -> int:
        return sum(row.engines for row in self.rows)

    @property
    def busy(self) -> float:
        """Of all engines and the whole time, from 0 to 1."""
        return sum(self.load) / len(self.load)


def arrange(spans: Sequence[SpanRow], ranks: Iterable[Rank], max_rows: int, slices: int) -> Timeline:
    """Rows of engines, in the order of ranks, those beside the seats last; at most ``max_rows`` of them.

    ``spans`` is not empty; ``ranks`` are those of engines that may have run nothing.
    """
    began_s = min(span.began_s for span in spans)
    seconds = max(max(span.ended_s for span in spans) - began_s, 1e-6)
    shares = _shares(spans)
    shades = {share.name: shade for shade, share in enumerate(shares)}
    bands = _bands(sorted({*ranks, *(span.rank for span in spans)}, key=_place), max_rows)
    band_of = {rank: index for index, band in enumerate(bands) for rank in band}
    taken: list[list[defaultdict[int, float]]] = [[defaultdict(float) for _ in range(slices)] for _ in bands]
    for span in spans:
        row, shade = taken[band_of[span.rank]], shades.get(span.name, len(shares) - 1)
        for index, part in _parts((span.began_s - began_s) / seconds, (span.ended_s - began_s) / seconds, slices):
            row[index][shade] += part
    rows = [_row(band, counted) for band, counted in zip(bands, taken, strict=True)]
    engines = len(band_of)
    load = [sum(row.engines * _busy(row.slices[index]) for row in rows) / engines for index in range(slices)]
    return Timeline(shares=shares, rows=rows, load=load, seconds=seconds)


def as_text(spans: Sequence[SpanRow], ranks: Iterable[Rank] = (), total: int | None = None) -> str:
    """The picture for a terminal: a letter for each function, small where an engine was idle for the most part."""
    if not spans:
        return "nothing has been run yet"
    timeline = arrange(spans, ranks, TEXT_ROWS, TEXT_SLICES)
    width = max(len(row.label) for row in timeline.rows)
    lines = [headline(timeline, len(spans), total)]
    lines += [f"{row.label:>{width}} {_letters(row)} {row.busy:4.0%}" for row in timeline.rows]
    lines.append(f"{'':>{width}} {'0 s':<{TEXT_SLICES - 8}}{lasting(timeline.seconds):>8}")
    return "\n".join([*lines, *legend(timeline)])


def lasting(seconds: float) -> str:
    """A duration that may be short: ``4 ms``, ``0.4 s``, ``3 min 5 s``."""
    return f"{seconds * 1000:.3g} ms" if 0 < seconds < 0.1 else duration(seconds)


def latest(spans: Sequence[SpanRow], seconds: float) -> list[SpanRow]:
    """What ran in the last so many seconds before the end of all; what began earlier counts from then on."""
    end_s = max((span.ended_s for span in spans), default=0.0)
    begin_s = end_s - seconds
    return [
        msgspec.structs.replace(span, began_s=max(span.began_s, begin_s)) for span in spans if span.ended_s > begin_s
    ]


def headline(timeline: Timeline, shown: int, total: int | None = None) -> str:
    """``4 engines, 12 s, 1,234 calls, busy 78%``."""
    calls = sum(share.calls for share in timeline.shares)
    failures = sum(share.failures for share in timeline.shares)
    parts = [_engines(timeline.engines), lasting(timeline.seconds), _calls(calls), f"busy {timeline.busy:.0%}"]
    if failures:
        parts.append(f"{failures:,} failed")
    if total is not None and total > shown:
        parts.append(f"the latest {shown:,} of {total:,} spans")
    return ", ".join(parts)


def legend(timeline: Timeline) -> list[str]:
    """One line for each function that has a shade of its own, and one for the others."""
    return [f"{LETTERS[shade]} {share_text(share)}" for shade, share in enumerate(timeline.shares)]


def share_text(share: Share) -> str:
    """``square: 1,000 calls, 7.1 s``."""
    failed = f", {share.failures:,} failed" if share.failures else ""
    return f"{share.name}: {_calls(share.calls)}, {lasting(share.busy_s)}{failed}"


def _letters(row: Row) -> str:
    return "".join(IDLE if part is None else _letter(part) for part in row.slices)


def _letter(part: Slice) -> str:
    letter = LETTERS[part.shade]
    return letter if part.busy >= 0.5 else letter.lower()


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count:,} calls"


def _engines(count: int) -> str:
    return "1 engine" if count == 1 else f"{count:,} engines"


# ---- rows and slices -------------------------------------------------------------------------------------


def _shares(spans: Iterable[SpanRow]) -> list[Share]:
    found: dict[str, Share] = {}
    for span in spans:
        before = found.get(span.name, Share(span.name, 0, 0.0, 0))
        found[span.name] = _joined(span.name, [before, _share(span)])
    shares = sorted(found.values(), key=lambda share: (-share.busy_s, share.name))
    if len(shares) <= MAX_SHADES:
        return shares
    return [*shares[:MAX_SHADES], _joined(OTHERS, shares[MAX_SHADES:])]


def _share(span: SpanRow) -> Share:
    return Share(span.name, span.count, span.ended_s - span.began_s, span.failed)


def _joined(name: str, shares: Sequence[Share]) -> Share:
    calls = sum(share.calls for share in shares)
    return Share(name, calls, sum(share.busy_s for share in shares), sum(share.failures for share in shares))


def _place(rank: Rank) -> tuple[bool, int]:
    """Seats by rank, then the engines beside them."""
    return rank < 0, abs(rank)


def _bands(ranks: list[Rank], max_rows: int) -> list[list[Rank]]:
    size = -(-len(ranks) // max_rows)
    return [ranks[at : at + size] for at in range(0, len(ranks), size)]


def _parts(begin: float, end: float, slices: int) -> Iterator[tuple[int, float]]:
    """Slices that a span covers, and what part of each; ``begin`` and ``end`` are parts of the whole time."""
    first, last = begin * slices, end * slices
    begins_in = min(int(first), slices - 1)
    yield begins_in, max(0.0, min(last, begins_in + 1) - first)
    for index in range(begins_in + 1, min(math.ceil(last), slices)):
        yield index, min(last, index + 1) - index


def _row(band: Sequence[Rank], counted: Sequence[Mapping[int, float]]) -> Row:
    slices = [_slice(taken, len(band)) for taken in counted]
    busy = sum(map(_busy, slices)) / len(slices)
    return Row(label=format_ranks(band), engines=len(band), busy=busy, slices=slices)


def _slice(taken: Mapping[int, float], engines: int) -> Slice | None:
    if not taken:
        return None
    shade = max(taken, key=lambda one: (taken[one], -one))
    return Slice(shade, min(1.0, sum(taken.values()) / engines))


def _busy(part: Slice | None) -> float:
    return 0.0 if part is None else part.busy
