"""What can never run is refused at once."""

from __future__ import annotations

from fibernb.core.board import Board
from fibernb.core.nodes import describe, largest
from fibernb.core.special import Options
from fibernb.model import Resources


def impossible(board: Board, options: Options) -> bytes | None:
    """An error if such a task or actor could never run; None while that is not known."""
    if options.placement:
        return _outside_of_group(board, options)
    if options.node and not options.soft and board.nodes and options.node not in board.nodes:
        nodes = " or ".join(sorted(board.nodes))
        return board.errors.unschedulable(f"the node {options.node!r}", f"the node {nodes}")
    return _too_much(board, options.resources)


def _too_much(board: Board, asked: Resources) -> bytes | None:
    seats = possible_seats(board)
    unknown = not board.nodes or (asked.milli_cpus and not seats)
    if unknown or any(node.could_fit(asked, seats) for node in board.nodes.values()):
        return None
    return board.errors.unschedulable(describe(asked), largest(board.nodes.values(), seats))


def possible_seats(board: Board) -> int:
    """How many seats there are, or may be with autoscaling."""
    return max(board.scaling.seats, board.scaling.maximum or 0)


def _outside_of_group(board: Board, options: Options) -> bytes | None:
    placement = board.placements.get(options.placement)
    if placement is None or placement.ended:
        ended = placement.ended if placement is not None else "nobody held it any more"
        return None if board.unsettled else board.errors.refused(f"the placement group is not there: {ended}")
    bundles = placement.choice(options.bundle)
    if any(bundle.could_fit(options.resources) for bundle in bundles):
        return None
    sizes = " or ".join(dict.fromkeys(describe(bundle.asked) for bundle in bundles))
    which = f"a bundle of {sizes}" if bundles else f"{len(placement.bundles)} bundles, none of number {options.bundle}"
    return board.errors.unschedulable(describe(options.resources), which)
