"""One member's side of a ring: carries out plans over its lanes, and says who is to blame when one cannot be."""

from __future__ import annotations

import threading
from typing import Final

from fibernb.collectives.board import DIED, Board, Cause, MemberLost
from fibernb.collectives.lanes import IN_FRAME, IN_SLOT, Inlet, LaneBroken, Outlet
from fibernb.collectives.meeting import Lanes, Place, board_path, meet
from fibernb.collectives.memory import Memory
from fibernb.collectives.schedule import Plan
from fibernb.collectives.turn import Turn
from fibernb.errors import RingBroken

FIRST_LOOK_S: Final = 0.02  # at the board, while nothing comes in
LOOK_S: Final = 0.2


class Circle:
    """The lanes are opened by the first plan. One that fails leaves the ring broken, for all members and for good.

    ``makes_board`` as for `Board`: raises `FileNotFoundError` when the ring is over already.
    """

    def __init__(self, place: Place, *, makes_board: bool = True) -> None:
        self.place = place
        self._board = Board(board_path(place.directory, place.token), place.size, make=makes_board)
        self._lanes = Lanes()
        self._ends: tuple[Inlet, Outlet] | None = None  # of the lanes, once both are there
        self._done = 0  # collectives
        self._cause: Cause | None = None
        self._lock = threading.Lock()

    def run(self, call: str, plan: Plan, memory: Memory, *, small: bool) -> None:
        """Take part in a collective, and return when this member's part is done.

        Parameters
        ----------
        call : what it is, for people; all members must mean the same.
        small : chunks travel in the socket, whatever their number; otherwise each must fit into a slot.

        Raises `RingBroken` when a member has died, has ended, or does something else. Whatever else ends this, such as
        a KeyboardInterrupt, breaks the ring for the others.
        """
        with self._lock:
            if self._cause is not None:
                raise self._broken(self._cause, call)
            try:
                self._run(f"#{self._done + 1} {call}", plan, memory, small)
            except (MemberLost, LaneBroken) as error:
                cause = error.cause if isinstance(error, MemberLost) else self._blame(error)
                self._give_up(cause)
                raise self._broken(cause, call) from None
            except BaseException as error:
                self._give_up(Cause(self.place.position, f"was stopped in {call} by {type(error).__name__}"))
                raise
            self._done += 1
            self._board.note_done(self.place.position, self._done)

    def close(self, reason: str) -> None:
        """Leave the ring. ``reason`` completes the sentence that begins with this member's name."""
        with self._lock:
            if self._cause is None:
                self._give_up(Cause(self.place.position, reason))

    def abandon(self) -> None:
        """In a forked child: let go of the lanes, which are the parent's."""
        self._cause = Cause(self.place.position, "was forked, and only the parent stays a member")
        self._lanes.close()

    def _run(self, call: str, plan: Plan, memory: Memory, small: bool) -> None:
        if self._ends is None:
            self._ends = meet(self.place, self._board, self._lanes)
        turn = Turn(plan, memory, self._ends, self.place.position, call, IN_FRAME if small else IN_SLOT)
        pause_s = FIRST_LOOK_S
        while not turn.is_done:
            if turn.advance():
                pause_s = FIRST_LOOK_S
            elif not turn.wait(pause_s):
                lost = self._board.lost(self._done + 1)
                if lost is not None:
                    raise MemberLost(lost)
                pause_s = min(2 * pause_s, LOOK_S)

    def _blame(self, error: LaneBroken) -> Cause:
        """Who is the cause that the member next to us has gone: it says so, if it could."""
        neighbour = (self.place.position + error.side) % self.place.size
        said = self._board.cause(neighbour)
        if said is not None:
            return said
        return Cause(neighbour, self._board.fate(neighbour) or DIED)

    def _give_up(self, cause: Cause) -> None:
        """The note first: who sees the lanes break will look for it."""
        self._cause = cause
        self._board.note_cause(self.place.position, cause)
        self._lanes.close()

    def _broken(self, cause: Cause, call: str) -> RingBroken:
        return RingBroken(self.place.names[cause.position], cause.reason, call)
