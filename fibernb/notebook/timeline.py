"""Which engine ran what, when, and what waited: spans arranged into rows and slices of time, and as text. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from fibernb.model import Rank
from fibernb.notebook.grouping import format_ranks
from fibernb.notebook.rows import SpanRow, WaitRow
from fibernb.notebook.snapshot import duration

MAX_SHADES: Final = 7  # functions that are told apart; all others share one shade more
BLOCKED: Final = -1  # the shade of an engine whose task waits for other tasks
OTHERS: Final = "others"
LEAST_WAIT_S: Final = 0.01  # a shorter stay in the queue is the way to the engine
TEXT_ROWS: Final = 32
TEXT_SLICES: Final = 60
LETTERS: Final = "ABCDEFG*"
IDLE: Final = "·"
WAITS: Final = "~"
HEIGHTS: Final = "▁▂▃▄▅▆▇█"

Counted: TypeAlias = list[list[defaultdict[int, float]]]  # for every row and slice: what of it a shade takes


class Past(NamedTuple):
    """What there is to show. ``ranks``: of engines that may have run nothing; ``total``: spans, the older ones too."""

    spans: Sequence[SpanRow]
    waits: Sequence[WaitRow] = ()
    ranks: Iterable[Rank] = ()
    total: int = 0

    @property
    def blocked(self) -> list[WaitRow]:
        """Waits of tasks for others."""
        return [wait for wait in self.waits if wait.kind == "blocked"]

    @property
    def empty(self) -> bool:
        return not self.spans and not self.blocked


class Share(NamedTuple):
    """What one function took of the time. ``queued_s``: of all its calls together."""

    name: str
    calls: int = 0
    busy_s: float = 0.0
    failures: int = 0
    blocked_s: float = 0.0
    queued_s: float = 0.0


class Slice(NamedTuple):
    """What a row did in one slice of time: mostly this shade; for which parts of it it was busy, and blocked."""

    shade: int
    busy: float  # from 0 to 1
    blocked: float = 0.0

    @property
    def strength(self) -> float:
        """For how much of the time its shade holds."""
        return self.blocked if self.shade == BLOCKED else self.busy


class Row(NamedTuple):
    """One engine, or several neighbours."""

    label: str
    engines: int
    busy: float  # of the whole time, from 0 to 1
    blocked: float
    slices: list[Slice | None]  # None: idle


class Timeline(NamedTuple):
    shares: list[Share]  # by shade; longest first, the others last
    rows: list[Row]
    load: list[float]  # of all engines by slice, from 0 to 1
    queue: list[float]  # calls that wait for an engine, by slice; empty if none ever did
    seconds: float

    @property
    def engines(self) -> int:
        return sum(row.engines for row in self.rows)

    @property
    def busy(self) -> float:
        """Of all engines and the whole time, from 0 to 1."""
        return sum(self.load) / len(self.load)

    @property
    def blocked(self) -> float:
        """Of all engines and the whole time, from 0 to 1."""
        return sum(row.blocked * row.engines for row in self.rows) / self.engines


def arrange(past: Past, max_rows: int, slices: int) -> Timeline:
    """Rows of engines, in the order of ranks, those beside the seats last; at most ``max_rows`` of them.

    ``past`` is not empty.
    """
    queued = _queued(past)
    begin_s, seconds = _limits(past, queued)
    shares = _shares(past)
    bands = _bands(sorted({*past.ranks, *_ranks(past)}, key=_place), max_rows)
    taken = _counted(past, bands, {share.name: shade for shade, share in enumerate(shares)}, (begin_s, seconds, slices))
    rows = [_row(band, counted) for band, counted in zip(bands, taken, strict=True)]
    engines = sum(map(len, bands))
    load = [sum(row.engines * _busy(row.slices[index]) for row in rows) / engines for index in range(slices)]
    queue = [0.0] * slices if queued else []
    for wait in queued:
        for index, part in _parts((wait.began_s - begin_s) / seconds, (wait.ended_s - begin_s) / seconds, slices):
            queue[index] += part * wait.count
    return Timeline(shares=shares, rows=rows, load=load, queue=queue, seconds=seconds)


def as_text(past: Past) -> str:
    """The picture for a terminal: a letter for each function, small where an engine was idle for the most part."""
    if past.empty:
        return "nothing has been run yet"
    timeline = arrange(past, TEXT_ROWS, TEXT_SLICES)
    width = max(len(row.label) for row in timeline.rows)
    width = max(width, len("queue")) if timeline.queue else width
    lines = [headline(timeline, len(past.spans), past.total)]
    lines += [f"{row.label:>{width}} {_letters(row)} {row.busy:4.0%}" for row in timeline.rows]
    if timeline.queue:
        lines.append(f"{'queue':>{width}} {_heights(timeline.queue)} {longest(timeline):>4,}")
    lines.append(f"{'':>{width}} {'0 s':<{TEXT_SLICES - 8}}{lasting(timeline.seconds):>8}")
    return "\n".join([*lines, *legend(timeline)])


def lasting(seconds: float) -> str:
    """A duration that may be short: ``4 ms``, ``0.4 s``, ``3 min 5 s``."""
    return f"{seconds * 1000:.3g} ms" if 0 < seconds < 0.1 else duration(seconds)


def latest(past: Past, seconds: float) -> Past:
    """What was in the last so many seconds before the end of all; what began earlier counts from then on."""
    everything: list[SpanRow | WaitRow] = [*past.spans, *past.waits]
    begin_s = max((what.ended_s for what in everything), default=0.0) - seconds
    spans = [_since(span, begin_s) for span in past.spans if span.ended_s > begin_s]
    waits = [
        msgspec.structs.replace(wait, began_s=max(wait.began_s, begin_s))
        for wait in past.waits
        if wait.ended_s > begin_s
    ]
    return Past(spans, waits, past.ranks, len(spans))


def _since(span: SpanRow, begin_s: float) -> SpanRow:
    waited_s = max(0.0, min(span.waited_s, span.began_s - begin_s))
    return msgspec.structs.replace(span, began_s=max(span.began_s, begin_s), waited_s=waited_s)


def headline(timeline: Timeline, shown: int, total: int = 0) -> str:
    """``4 engines, 12 s, 1,234 calls, busy 78%``."""
    calls = sum(share.calls for share in timeline.shares)
    failures = sum(share.failures for share in timeline.shares)
    parts = [_engines(timeline.engines), lasting(timeline.seconds), _calls(calls), f"busy {timeline.busy:.0%}"]
    if timeline.blocked:
        parts.append(f"blocked {timeline.blocked:.0%}")
    if failures:
        parts.append(f"{failures:,} failed")
    if total > shown:
        parts.append(f"the latest {shown:,} of {total:,} spans")
    return ", ".join(parts)


def legend(timeline: Timeline) -> list[str]:
    """One line for each function that has a shade of its own, one for the others, and what waits look like."""
    lines = [f"{LETTERS[shade]} {share_text(share)}" for shade, share in enumerate(timeline.shares)]
    if timeline.blocked:
        lines.append(f"{WAITS} {BLOCKED_TEXT}")
    return [*lines, queue_text(timeline)] if timeline.queue else lines


BLOCKED_TEXT: Final = "blocked: the task waits for other tasks, in get or wait"


def queue_text(timeline: Timeline) -> str:
    """``queue: at most 12 calls waited for an engine at once``."""
    return f"queue: at most {_calls(longest(timeline))} waited for an engine at once"


def longest(timeline: Timeline) -> int:
    """How many calls waited for an engine at the worst time."""
    return math.ceil(max(timeline.queue))


def share_text(share: Share) -> str:
    """``square: 1,000 calls, 7.1 s, blocked for 2 s, 0.4 s in the queue on average``."""
    parts = [f"{_calls(share.calls)}, {lasting(share.busy_s)}" if share.calls else "has not ended"]
    if share.blocked_s:
        parts.append(f"blocked for {lasting(share.blocked_s)}")
    if share.queued_s:
        parts.append(f"{lasting(share.queued_s / share.calls)} in the queue on average")
    if share.failures:
        parts.append(f"{share.failures:,} failed")
    return f"{share.name}: {', '.join(parts)}"


def _letters(row: Row) -> str:
    return "".join(IDLE if part is None else _letter(part) for part in row.slices)


def _letter(part: Slice) -> str:
    if part.shade == BLOCKED:
        return WAITS
    letter = LETTERS[part.shade]
    return letter if part.busy >= 0.5 else letter.lower()


def _heights(queue: Sequence[float]) -> str:
    most = max(queue)
    return "".join(HEIGHTS[math.ceil(calls / most * len(HEIGHTS)) - 1] if calls else IDLE for calls in queue)


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count:,} calls"


def _engines(count: int) -> str:
    return "1 engine" if count == 1 else f"{count:,} engines"


# ---- rows and slices -------------------------------------------------------------------------------------


def _queued(past: Past) -> list[WaitRow]:
    """Stays of calls in the queue, of those that have run and of those that are there yet."""
    stays = [
        WaitRow(
            kind="queued",
            rank=None,
            name=span.name,
            began_s=span.began_s - span.waited_s,
            ended_s=span.began_s,
            count=span.count,
        )
        for span in past.spans
        if span.waited_s >= LEAST_WAIT_S
    ]
    return stays + [
        wait for wait in past.waits if wait.kind == "queued" and wait.ended_s - wait.began_s >= LEAST_WAIT_S
    ]


def _limits(past: Past, queued: Iterable[WaitRow]) -> tuple[float, float]:
    """When the picture begins, and how long it is. Waits of tasks before the first span are older than what is kept."""
    blocked = past.blocked
    kept: list[SpanRow | WaitRow] = [*past.spans, *queued]
    begin_s = min(what.began_s for what in (*kept, *(wait for wait in blocked if wait.open or not past.spans)))
    end_s = max(what.ended_s for what in (*kept, *blocked))
    return begin_s, max(end_s - begin_s, 1e-6)


def _ranks(past: Past) -> Iterator[Rank]:
    yield from (span.rank for span in past.spans)
    yield from (wait.rank for wait in past.waits if wait.rank is not None)


def _shares(past: Past) -> list[Share]:
    found: dict[str, Share] = {}
    for share in (*map(_share, past.spans), *map(_wait_share, past.blocked)):
        found[share.name] = _joined(share.name, [found.get(share.name, Share(share.name)), share])
    shares = sorted(found.values(), key=lambda share: (-share.busy_s, share.name))
    if len(shares) <= MAX_SHADES:
        return shares
    return [*shares[:MAX_SHADES], _joined(OTHERS, shares[MAX_SHADES:])]


def _share(span: SpanRow) -> Share:
    queued_s = span.waited_s * span.count if span.waited_s >= LEAST_WAIT_S else 0.0
    return Share(span.name, span.count, span.ended_s - span.began_s, span.failed, 0.0, queued_s)


def _wait_share(wait: WaitRow) -> Share:
    return Share(wait.name, blocked_s=wait.ended_s - wait.began_s)


def _joined(name: str, shares: Sequence[Share]) -> Share:
    _, calls, busy_s, failures, blocked_s, queued_s = zip(*shares, strict=True)
    return Share(name, sum(calls), sum(busy_s), sum(failures), sum(blocked_s), sum(queued_s))


def _place(rank: Rank) -> tuple[bool, int]:
    """Seats by rank, then the engines beside them."""
    return rank < 0, abs(rank)


def _bands(ranks: list[Rank], max_rows: int) -> list[list[Rank]]:
    size = -(-len(ranks) // max_rows)
    return [ranks[at : at + size] for at in range(0, len(ranks), size)]


def _counted(
    past: Past, bands: list[list[Rank]], shades: Mapping[str, int], scale: tuple[float, float, int]
) -> Counted:
    """What every row was busy with in every slice, without the time in which it was blocked. ``scale``: when the
    picture begins, how long it is, and how many slices it has.
    """
    begin_s, seconds, slices = scale
    others = len(shades) - 1
    band_of = {rank: index for index, band in enumerate(bands) for rank in band}
    taken: Counted = [[defaultdict(float) for _ in range(slices)] for _ in bands]
    for span in past.spans:
        row, shade = taken[band_of[span.rank]], shades.get(span.name, others)
        for index, part in _parts((span.began_s - begin_s) / seconds, (span.ended_s - begin_s) / seconds, slices):
            row[index][shade] += part
    for wait in past.blocked:
        begin, end = max(wait.began_s, begin_s), wait.ended_s
        if wait.rank is not None and end >= begin:
            row, shade = taken[band_of[wait.rank]], shades.get(wait.name, others)
            for index, part in _parts((begin - begin_s) / seconds, (end - begin_s) / seconds, slices):
                row[index][shade] = max(0.0, row[index][shade] - part)
                row[index][BLOCKED] += part
    return taken


def _parts(begin: float, end: float, slices: int) -> Iterator[tuple[int, float]]:
    """Slices that a span covers, and what part of each; ``begin`` and ``end`` are parts of the whole time."""
    first, last = begin * slices, end * slices
    begins_in = min(int(first), slices - 1)
    yield begins_in, max(0.0, min(last, begins_in + 1) - first)
    for index in range(begins_in + 1, min(math.ceil(last), slices)):
        yield index, min(last, index + 1) - index


def _row(band: Sequence[Rank], counted: Sequence[dict[int, float]]) -> Row:
    slices = [_slice(taken, len(band)) for taken in counted]
    busy = sum(map(_busy, slices)) / len(slices)
    blocked = sum(0.0 if part is None else part.blocked for part in slices) / len(slices)
    return Row(label=format_ranks(band), engines=len(band), busy=busy, blocked=blocked, slices=slices)


def _slice(taken: Mapping[int, float], engines: int) -> Slice | None:
    if not taken:
        return None
    shade = max(taken, key=lambda one: (taken[one], -one))
    blocked = taken.get(BLOCKED, 0.0)
    busy = sum(taken.values()) - blocked
    return Slice(shade, min(1.0, busy / engines), min(1.0, blocked / engines))


def _busy(part: Slice | None) -> float:
    return 0.0 if part is None else part.busy
