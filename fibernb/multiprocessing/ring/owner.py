"""A ring from outside: starts its members, watches them, and starts those anew that have died."""

from __future__ import annotations

import operator
import secrets
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from fibernb import serialize
from fibernb.client.api import current_cluster
from fibernb.collectives.fates import Fates
from fibernb.collectives.meeting import Place
from fibernb.errors import ConfigError, RingBroken
from fibernb.meta import ATTRIBUTE, needs_of
from fibernb.multiprocessing.context import default
from fibernb.multiprocessing.process import Process
from fibernb.multiprocessing.ring import talk
from fibernb.multiprocessing.ring.member import live
from fibernb.multiprocessing.ring.talk import Done, Failed, Position, Refused

GRACE_S: Final = 3.0  # for members that are ended, before they are killed


class Ring:
    """A number of processes, each of which runs the same function, and which can combine what they have.

    In the function ``fibernb.rank()`` and ``size()`` are those of the ring, and ``fibernb.allreduce``, ``broadcast``,
    ``allgather``, ``reduce_scatter`` and ``barrier`` run over its members.

    Parameters
    ----------
    processes : how many; their ranks count from 0.
    func : called as ``func(rank, size)`` in each.
    initializer : called before it in each as ``initializer(ring, *initargs)`` with the `RingMember` there, which has
        the collectives as methods, the addresses of all ``members``, and `RingMember.rebuild`; `current_ring` gives the
        same in the function.
    """

    def __init__(
        self,
        processes: int,
        func: Callable[[int, int], Any],
        initializer: Callable[..., Any] | None = None,
        initargs: Sequence[Any] | None = None,
    ) -> None:
        if operator.index(processes) < 0:
            raise ConfigError(f"a ring cannot have {processes} processes: give 0 or more")
        self.size = operator.index(processes)
        self.func = func
        self.initializer = initializer
        self.initargs = tuple(initargs or ())

    def run(self) -> list[Any]:
        """Run the ring to its end: the values of the function by rank. It may be run again.

        Raises what the function raised on the first member where it failed, or `RingBroken`, which names it, when a
        member has died and the others have not rebuilt the ring. Then, and when this is interrupted, what is left of
        the ring is ended.
        """
        if not self.size:
            return []
        watch = _Watch(self, str(current_cluster().directory))
        try:
            return watch.run()
        finally:
            watch.end()


class _Seat:
    """A rank: the process that has it now, and what it has come to."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.generation = 0  # that the process was told of
        self.outcome: Done | BaseException | None = None
        self.has_died = False  # without a word; the outcome names it
        self.process: Process
        self.connection: Connection[Any, Any]


class _Watch:
    """One run of a ring."""

    def __init__(self, ring: Ring, directory: str) -> None:
        self._ring = ring
        self._directory = directory
        self._token = secrets.token_hex(6)
        self._generation = 0
        self._fates = self._new_fates()
        self._seats = [_Seat(rank) for rank in range(ring.size)]
        self._started: list[_Seat] = []

    def run(self) -> list[Any]:
        for seat in self._seats:
            self._start(seat)
        while (unfinished := [seat for seat in self._seats if seat.outcome is None]) and self._failure() is None:
            self._serve(unfinished)
        failure = self._failure() or next((seat.outcome for seat in self._seats if seat.has_died), None)
        if isinstance(failure, BaseException):
            raise failure
        return [serialize.loads(seat.outcome.value) for seat in self._seats if isinstance(seat.outcome, Done)]

    def end(self) -> None:
        """End what is left."""
        for seat in self._started:
            if seat.outcome is None:
                seat.process.terminate()
        for seat in self._started:
            if seat.outcome is None:
                seat.process.join(GRACE_S)
                seat.process.kill()
            _dismiss(seat)
        self._fates.give_up("has ended")

    # ---- members -------------------------------------------------------------------------------------------

    def _start(self, seat: _Seat) -> None:
        ring, (own, theirs) = self._ring, default.Pipe()
        seat.connection, seat.generation = own, self._generation
        arguments = (theirs, self._position(seat), ring.func, ring.initializer, ring.initargs)
        seat.process = Process(target=live, args=arguments, name=f"Ring-{seat.rank}")
        seat.process.tells_problem = False  # the ring raises it
        needs = needs_of(ring.func)
        if needs:
            setattr(seat.process, ATTRIBUTE, needs)
        with theirs:
            seat.process.start()
        self._started.append(seat)

    def _position(self, seat: _Seat) -> Position:
        place = Place(
            directory=self._directory,
            token=f"{self._token}{self._generation:x}",
            position=seat.rank,
            names=tuple(range(self._ring.size)),
        )
        return Position(place=place, generation=self._generation)

    def _new_fates(self) -> Fates:
        return Fates(self._directory, f"{self._token}{self._generation:x}", self._ring.size, now=True)

    # ---- what happens ----------------------------------------------------------------------------------------

    def _serve(self, seats: Sequence[_Seat]) -> None:
        """Wait until a member says something, or ends."""
        waited_for: list[Any] = [thing for seat in seats for thing in (seat.connection, seat.process.sentinel)]
        ready = set(wait(waited_for))
        speaking = [(seat, seat.process) for seat in seats if seat.connection in ready]
        ended = [(seat, seat.process) for seat in seats if seat.process.sentinel in ready - {seat.connection}]
        for seat, process in speaking:
            if seat.process is process:  # it has not been replaced meanwhile
                self._listen(seat)
        for seat, process in ended:
            if seat.process is process and seat.outcome is None and not seat.connection.poll():
                self._lose(seat)

    def _listen(self, seat: _Seat) -> None:
        try:
            word = talk.to_owner.decode(seat.connection.recv_bytes())
        except (EOFError, OSError):
            self._lose(seat)
            return
        if isinstance(word, Done):
            self._finish(seat, word, "has ended")
        elif isinstance(word, Failed):
            error = serialize.loads_error(word.error)
            self._finish(seat, error, f"has failed: {type(error).__name__}: {error}")
        else:
            self._rebuild(seat, word.generation)

    def _finish(self, seat: _Seat, outcome: Done | BaseException, fate: str) -> None:
        seat.outcome = outcome
        self._fates.note(seat.rank, fate)

    def _lose(self, seat: _Seat) -> None:
        """A member has ended without a word."""
        seat.process.join()
        problem = seat.process.problem
        if problem is not None:
            self._finish(seat, problem, f"could not be started: {problem}")
            return
        if seat.generation < self._generation:  # the ring has been rebuilt for its sake
            self._replace(seat)
            return
        seat.has_died = True
        fate = f"has died: its process {manner_of(seat.process.exitcode)}"
        self._fates.note(seat.rank, fate, died=True)
        seat.outcome = RingBroken(seat.rank, fate)

    def _rebuild(self, seat: _Seat, generation: int) -> None:
        """A member asks for the next generation; the first one that does begins it."""
        over = next((seat.rank for seat in self._seats if seat.outcome is not None and not seat.has_died), None)
        if generation == self._generation and over is None:
            self._begin_generation()
        seat.generation = self._generation
        answer = self._position(seat) if over is None else Refused(rank=over, reason="has ended")
        with suppress(BrokenPipeError):  # it is noticed to have died with the next look
            seat.connection.send_bytes(talk.encode(answer))

    def _begin_generation(self) -> None:
        before, self._generation = self._fates, self._generation + 1
        self._fates = self._new_fates()
        for seat in self._seats:
            if seat.has_died:
                self._replace(seat)
        before.give_up("is to come to the rebuilt ring")

    def _replace(self, seat: _Seat) -> None:
        self._started.remove(seat)
        _dismiss(seat)
        seat.outcome, seat.has_died = None, False
        self._start(seat)

    def _failure(self) -> BaseException | None:
        """Why there is no use in going on: a member's exception. Of those that follow from each other the first."""
        raised = [seat.outcome for seat in self._seats if not seat.has_died and isinstance(seat.outcome, BaseException)]
        for error in raised:
            cause = self._seats[error.rank].outcome if isinstance(error, RingBroken) else error
            if isinstance(cause, BaseException):
                return cause
            if cause is not None:
                return error
        return None


def _dismiss(seat: _Seat) -> None:
    seat.process.join()
    seat.process.close()
    seat.connection.close()


def manner_of(exit_code: int | None) -> str:
    """How a process ended, as the end of a sentence."""
    if exit_code is not None and exit_code < 0:
        try:
            return f"was killed by signal {-exit_code} ({signal.Signals(-exit_code).name})"
        except ValueError:
            return f"was killed by signal {-exit_code}"
    return f"exited with code {exit_code}"
