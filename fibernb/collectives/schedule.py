"""Who sends what to whom in a ring: pure arithmetic, no input or output.

The members of a ring stand in a circle, and each sends to the one after it only. What is to be combined or handed
round is cut into *chunks*. A chunk begins at its *origin* and goes from member to member, one *hop* each time. In a
collective of ``size`` members it makes

- ``size - 1`` hops on which every member adds its own part, so that after the last of them it is complete (*reducing*),
- then ``size - 1`` hops on which every member takes a copy (*gathering*),

or only one of the two. What a member has to do with a chunk follows from the number of hops that the chunk has made, so
chunks need no order among each other, and all members are busy at once when the origins are spread evenly. Then every
member sends ``2 * (size - 1) / size`` times the data for an allreduce, which is the least that is possible
(Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Items from ``start`` up to, without, ``stop``."""

    start: int
    stop: int


class Chunk(NamedTuple):
    """Items that travel together, and the position of the member with which they begin."""

    start: int
    stop: int
    origin: int


class Deed(NamedTuple):
    """What a member does with a chunk that comes in."""

    reduce: bool  # combine it with its own part; otherwise it is complete
    keep: bool  # it is complete now: it belongs into the result
    forward: bool  # send it on


class Plan(NamedTuple):
    """A collective as a whole; equal on all members."""

    size: int
    chunks: Sequence[Chunk]
    reducing: bool
    gathering: bool

    @property
    def hops(self) -> int:
        """How many hops every chunk makes."""
        return (self.size - 1) * (self.reducing + self.gathering)

    def deed(self, hops: int) -> Deed:
        """What is to be done with a chunk that has made so many hops, the one to here included."""
        complete_after = self.size - 1 if self.reducing else 0
        return Deed(reduce=hops <= complete_after, keep=hops >= complete_after, forward=hops < self.hops)

    def begins(self, position: int) -> list[int]:
        """Numbers of the chunks that begin at a member."""
        return [number for number, chunk in enumerate(self.chunks) if chunk.origin == position] if self.hops else []

    def arrivals(self, position: int) -> int:
        """How many chunks come in at a member in all; one may come twice."""
        return sum(self._visits(chunk.origin, position) for chunk in self.chunks)

    def _visits(self, origin: int, position: int) -> int:
        first = (position - origin) % self.size or self.size  # hops after which it is here for the first time
        return (first <= self.hops) + (first + self.size <= self.hops)


def parts(items: int, count: int) -> list[Span]:
    """Cut a number of items into so many spans, as equal as can be; the longer ones come first."""
    least, longer = divmod(items, count)
    bounds = [number * least + min(number, longer) for number in range(count + 1)]
    return [Span(start, stop) for start, stop in itertools.pairwise(bounds)]


def allreduce(size: int, items: int, chunk_items: int) -> Plan:
    """Every member gets everybody's items combined; the work is spread evenly."""
    return Plan(size, _spread(parts(items, size), 1, chunk_items), reducing=True, gathering=True)


def allreduce_as_one(size: int, items: int) -> Plan:
    """As `allreduce`, in the fewest messages: all items travel together, twice round the ring from the first member.

    For small values, and for none: a barrier.
    """
    return Plan(size, [Chunk(0, items, 0)], reducing=True, gathering=True)


def reduce_scatter(size: int, spans: Sequence[Span], chunk_items: int) -> Plan:
    """The member at position ``p`` gets everybody's items of the p-th span combined."""
    return Plan(size, _spread(spans, 1, chunk_items), reducing=True, gathering=False)


def allgather(size: int, spans: Sequence[Span], chunk_items: int) -> Plan:
    """The member at position ``p`` has the p-th span, and every member gets all of them."""
    return Plan(size, _spread(spans, 0, chunk_items), reducing=False, gathering=True)


def broadcast(size: int, root: int, items: int, chunk_items: int) -> Plan:
    """Every member gets the items of the one at position ``root``; chunks follow each other along the ring."""
    chunks = [Chunk(*span, root) for span in _cut(Span(0, items), chunk_items)]
    return Plan(size, chunks, reducing=False, gathering=True)


def _spread(spans: Sequence[Span], ahead: int, chunk_items: int) -> list[Chunk]:
    """The p-th span begins so many positions ahead of p."""
    return [
        Chunk(*piece, (position + ahead) % len(spans))
        for position, span in enumerate(spans)
        for piece in _cut(span, chunk_items)
    ]


def _cut(span: Span, most: int) -> Iterator[Span]:
    for start in range(span.start, span.stop, most):
        yield Span(start, min(start + most, span.stop))
