"""What is sent out on every drain, in this order; see `sending`, `special` and `acting`."""

from __future__ import annotations

from fibernb.core.acting import send_calls
from fibernb.core.board import Board
from fibernb.core.grouping import place_groups
from fibernb.core.sending import fill_busy, fill_idle, fill_lent, send_pinned, take_back
from fibernb.core.special import held_for_special, send_special


def dispatch(board: Board, now: float) -> None:
    """Send what can be sent. Nothing is decided while engines of a hub before this one have not told what they have."""
    if board.recovering:
        return
    if board.awake:
        send_pinned(board, now)
    if board.calling:
        send_calls(board, now)
    if board.unplaced:
        place_groups(board)
    if board.special.count and (board.roomier or board.special.fresh):
        send_special(board, now)
    if board.plain.count and not held_for_special(board, now):
        fill_idle(board, now)
        if board.plain.count:
            fill_lent(board, now)
            fill_busy(board, now)
    if board.deep and len(board.idle) and not board.plain.count:
        take_back(board, now)
