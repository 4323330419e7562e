"""The members of a ring as one of them sees them: the collectives."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from fibernb.collectives import schedule
from fibernb.collectives.circle import Circle
from fibernb.collectives.lanes import SLOT_BYTES
from fibernb.collectives.memory import Blobs, Pieces
from fibernb.collectives.parcels import SMALL_BYTES, Arrival, Parcel
from fibernb.collectives.schedule import Plan, Span
from fibernb.errors import ConfigError

COMBINE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "sum": operator.add,
    "mean": operator.add,
    "prod": operator.mul,
    "max": max,
    "min": min,
}


class Group:
    """One member of a ring, with what the members do together.

    Every member calls the same collectives in the same order. Each raises `RingBroken`, which names who is the cause,
    when a member has died, has ended or does something else; the ring is of no use after that, and neither is what a
    result was being written to.

    Parameters
    ----------
    names : the ranks of all members, in the order of their positions.
    position : of this one.
    circle : the ring; None for a member that is alone.
    """

    def __init__(self, names: Sequence[int], position: int, circle: Circle | None) -> None:
        self.ranks = tuple(names)
        self._position = position
        self._circle = circle

    @property
    def rank(self) -> int:
        """Of this member."""
        return self.ranks[self._position]

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.ranks)

    def barrier(self) -> None:
        """Return when every member has called this."""
        if self._circle is not None:
            self._circle.run("barrier", schedule.allreduce_as_one(self.size, 0), Blobs({}), small=True)

    def broadcast(self, value: Any = None, root: int | None = None) -> Any:
        """The value that the member of rank ``root`` (None: the first one) has given; others need not give any.

        Raises `ConfigError` when no member has that rank.
        """
        origin = 0 if root is None else self._position_of(root)
        if self._circle is None:
            return value
        call = f"broadcast from rank {self.ranks[origin]}"
        parcel = Parcel(value) if origin == self._position else None
        blobs = Blobs({} if parcel is None else {origin: parcel.data})
        self._circle.run(call, schedule.broadcast(self.size, origin, 1, 1), blobs, small=True)
        arrival = Arrival(blobs.found[origin])
        if not arrival.is_complete:
            room = arrival.room if parcel is None else parcel.body
            plan = schedule.broadcast(self.size, origin, len(room), SLOT_BYTES)
            pieces = Pieces({origin: room}, {origin: Span(0, len(room))})
            self._circle.run(f"{call}, {len(room)} bytes", plan, pieces, small=False)
        return value if parcel is not None else arrival.value()

    def allgather(self, value: Any) -> list[Any]:
        """The values of all members, in the order of their positions. Arrays may differ in shape and type."""
        parcel = Parcel(value)
        blobs = Blobs({self._position: parcel.data})
        if self._circle is not None:
            self._circle.run("allgather", schedule.allreduce_as_one(self.size, 1), blobs, small=True)
        arrivals = [Arrival(blobs.found[position]) for position in range(self.size)]
        self._gather(parcel, arrivals)
        return [arrival.value() for arrival in arrivals]

    def allreduce(self, value: Any, op: Any = "sum", out: Any = None) -> Any:
        """The values of all members, combined item by item; the same on every member.

        Parameters
        ----------
        value : an array, of the same shape and type everywhere; a number; or a list, tuple or dict of such, each of
            which is combined by itself.
        op : "sum", "mean", "prod", "max" or "min"; a numpy function of two arrays; or any function of two values,
            which gets those of all members, in order, on every one.
        out : where the result of an array goes; it may be ``value``, so that nothing is allocated.

        Truth values are counted, as in numpy; the mean of whole numbers is a float64.
        """
        if isinstance(value, list | tuple | dict) and (isinstance(op, str) or _is_ufunc(op)):
            return _each(value, lambda part: self.allreduce(part, op))
        if _is_array_like(value) and (isinstance(op, str) or _is_ufunc(op)):
            return self._allreduce_array(value, op, out)
        return self._reduce_values(self.allgather(value), op)

    def reduce_scatter(self, value: Any, op: Any = "sum", out: Any = None) -> Any:
        """This member's part of the combined array: the first axis is cut into as many parts as there are members.

        The parts are as equal as can be, the longer ones first, as `numpy.array_split` cuts. Parameters as for
        `allreduce`, but arrays only. Raises `ValueError` for an array without an axis.
        """
        from fibernb.collectives import arrays  # noqa: PLC0415  numpy is optional

        request = arrays.Request(value, op)
        if not request.source.ndim:
            raise ValueError("reduce_scatter cuts the first axis of an array, and this one has none")
        rows = schedule.parts(len(request.source), self.size)
        width = request.source[:1].size if len(request.source) else 0
        spans = [Span(span.start * width, span.stop * width) for span in rows]
        own = rows[self._position]
        target = request.target((own.stop - own.start, *request.source.shape[1:]), out)
        if self._circle is None:
            target[...] = request.source
        else:
            plan = schedule.reduce_scatter(self.size, spans, SLOT_BYTES // request.source.itemsize)
            memory = arrays.Combined(request.source, target, request.combine, spans[self._position].start)
            self._circle.run(f"reduce_scatter, {request}", plan, memory, small=False)
        return request.finished(target, self.size, out)

    def close(self, reason: str) -> None:
        """Leave the ring; the others' collectives fail from now on. ``reason``: "has ended", say."""
        if self._circle is not None:
            self._circle.close(reason)

    def abandon(self) -> None:
        """In a forked child: the parent is the member."""
        if self._circle is not None:
            self._circle.abandon()

    # ---- arrays --------------------------------------------------------------------------------------------

    def _allreduce_array(self, value: Any, op: Any, out: Any) -> Any:
        from fibernb.collectives import arrays  # noqa: PLC0415  numpy is optional

        request = arrays.Request(value, op)
        target = request.target(request.source.shape, out)
        if self._circle is None:
            target[...] = request.source
        else:
            small = request.source.nbytes <= SMALL_BYTES
            memory = arrays.Combined(request.source, target, request.combine)
            plan = self._allreduce_plan(request.source.size, request.source.itemsize, small)
            self._circle.run(f"allreduce, {request}", plan, memory, small=small)
        result = request.finished(target, self.size, out)
        return result if out is not None or _is_array(value) else result[()]

    def _allreduce_plan(self, items: int, item_bytes: int, small: bool) -> Plan:
        if small:
            return schedule.allreduce_as_one(self.size, items)
        return schedule.allreduce(self.size, items, SLOT_BYTES // item_bytes)

    # ---- values --------------------------------------------------------------------------------------------

    def _gather(self, parcel: Parcel, arrivals: Sequence[Arrival]) -> None:
        """Hand round the bytes of the large ones."""
        large = {position: arrival for position, arrival in enumerate(arrivals) if not arrival.is_complete}
        parts = {position: arrival.room for position, arrival in large.items()}
        if self._position in large:
            parts[self._position][:] = parcel.body
        if not large or self._circle is None:
            return
        lengths = [len(parts[position]) if position in large else 0 for position in range(self.size)]
        bounds = [0, *itertools.accumulate(lengths)]
        spans = [Span(start, stop) for start, stop in itertools.pairwise(bounds)]
        plan = schedule.allgather(self.size, spans, SLOT_BYTES)
        pieces = Pieces(parts, dict(enumerate(spans)))
        self._circle.run(f"allgather, {bounds[-1]} bytes", plan, pieces, small=False)

    def _reduce_values(self, values: list[Any], op: Any) -> Any:
        if isinstance(op, str) and op not in COMBINE:
            raise ValueError(f"there is no operation {op!r}: use {', '.join(COMBINE)}, or a function of two values")
        combined = functools.reduce(COMBINE[op] if isinstance(op, str) else op, values)
        return combined / len(values) if op == "mean" else combined

    def _position_of(self, rank: int) -> int:
        if rank not in self.ranks:
            raise ConfigError(f"rank {rank} is no member: the ranks here are {', '.join(map(str, self.ranks))}")
        return self.ranks.index(rank)

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} of {self.size}, rank {self.rank}>"


def _is_array_like(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "__array__")


def _is_array(value: Any) -> bool:
    """Whether this is an array, rather than a number of numpy's."""
    return hasattr(value, "__setitem__")


def _is_ufunc(op: Any) -> bool:
    return type(op).__name__ == "ufunc"


def _each(value: Any, combine: Callable[[Any], Any]) -> Any:
    """The same structure with each value combined."""
    if isinstance(value, dict):
        return {key: combine(value[key]) for key in value}
    combined = [combine(item) for item in value]
    if hasattr(value, "_fields"):
        return type(value)(*combined)
    return tuple(combined) if isinstance(value, tuple) else combined
