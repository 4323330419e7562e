"""The collectives of the cell, or the ring, in which the calling code runs."""

from __future__ import annotations

import os
from typing import Any

from fibernb.collectives.circle import Circle
from fibernb.collectives.group import Group
from fibernb.collectives.meeting import Place
from fibernb.engine import context
from fibernb.errors import ClusterError
from fibernb.model import TaskId

_of_ring: Group | None = None  # this process is a member of a `Ring`
_of_cell: tuple[TaskId, Group] | None = None  # the cell's task


def barrier() -> None:
    """Return when every rank of the cell, or every member of the ring, has called this."""
    group().barrier()


def broadcast(value: Any = None, root: int | None = None) -> Any:
    """The value that rank ``root`` has given; see `Group.broadcast`."""
    return group().broadcast(value, root)


def allgather(value: Any) -> list[Any]:
    """The values of all ranks, in their order; see `Group.allgather`."""
    return group().allgather(value)


def allreduce(value: Any, op: Any = "sum", out: Any = None) -> Any:
    """The values of all ranks, combined: an array, a number, or a list, tuple or dict of such.

    Parameters
    ----------
    op : "sum", "mean", "prod", "max", "min", a numpy ufunc, or a function of two values.
    out : the array into which the result of an array goes; it may be ``value`` itself.

    Raises `RingBroken` when a rank has died, has ended, or does something else.
    """
    return group().allreduce(value, op, out)


def reduce_scatter(value: Any, op: Any = "sum", out: Any = None) -> Any:
    """This rank's part of the combined array, which is cut along its first axis; see `Group.reduce_scatter`."""
    return group().reduce_scatter(value, op, out)


def group() -> Group:
    """The ranks of the cell that runs here, or the members of the ring. Raises `ClusterError` where there are none."""
    if _of_ring is not None:
        return _of_ring
    engine = context.current()
    if engine is None or not engine.task or engine.task != engine.cell_task or engine.cell is None:
        raise ClusterError("collectives run over the ranks of a cell or a Ring, and this code runs in neither")
    if _of_cell is None or _of_cell[0] != engine.task:
        _leave_cell()  # an interrupt has kept an earlier one from it
        _join(engine, engine.cell)
        assert _of_cell is not None
    return _of_cell[1]


def ring() -> Group | None:
    """The ring that this process is a member of, if it is."""
    return _of_ring


def enter_ring(member: Group | None) -> None:
    """This process is a member of that ring from now on; None: of none."""
    global _of_ring
    _of_ring = member


def _join(engine: context.EngineContext, cell: context.CellContext) -> None:
    """This rank's place among those of a cell: their tasks have consecutive numbers, in the order of the ranks."""
    global _of_cell
    if len(set(cell.ranks)) < len(cell.ranks):
        raise ClusterError(f"a rank stands twice in {cell.ranks}: it cannot wait for itself")
    position = cell.ranks.index(engine.rank)
    place = Place(
        directory=str(engine.directory),
        token=f"{engine.task - position:x}",
        position=position,
        names=cell.ranks,
    )
    _of_cell = engine.task, Group(cell.ranks, position, Circle(place) if place.size > 1 else None)
    engine.on_cell_end = _leave_cell


def _leave_cell() -> None:
    global _of_cell
    left, _of_cell = _of_cell, None
    if left is not None:
        left[1].close("has ended its cell")


def _forget_in_child() -> None:
    """A forked child is no member, and must not keep lanes open that break with its parent."""
    for member in (_of_ring, None if _of_cell is None else _of_cell[1]):
        if member is not None:
            member.abandon()


os.register_at_fork(after_in_child=_forget_in_child)
