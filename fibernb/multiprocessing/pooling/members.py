"""The workers of a pool as its owner has them: a process each, and the connection to it."""

from __future__ import annotations

import contextlib
import itertools
import select
import threading
from collections.abc import Callable, Iterable, Mapping
from multiprocessing import util
from typing import Any, Final

from fibernb.errors import ClusterError
from fibernb.meta import ATTRIBUTE
from fibernb.multiprocessing.connection import Pipe
from fibernb.multiprocessing.pooling.channel import Channel
from fibernb.multiprocessing.pooling.messages import Leave, Piece, ToOwner, Work, to_owner
from fibernb.multiprocessing.pooling.tie import Tie
from fibernb.multiprocessing.pooling.worker import work

TERMINATE_GRACE_S: Final = 5.0  # from SIGTERM to SIGKILL

_numbers: Final = itertools.count(1)


class Member:
    """One worker.

    Parameters
    ----------
    process : runs it.
    channel : the owner's end of its connection.
    """

    def __init__(self, process: Any, channel: Channel[ToOwner]) -> None:
        self.number = next(_numbers)
        self.process = process
        self.channel = channel
        self.is_ready = False
        self.is_dismissed = False
        self.is_gone = False
        self.stop_by: float | None = None  # when it has to have stopped what nobody wants any more
        self.known: set[int] = set()  # functions that it has
        self.forget: list[int] = []  # functions that it need not keep
        self._sending = threading.Lock()

    @property
    def problem(self) -> BaseException | None:
        """Why its process could not be started, if it could not."""
        problem: BaseException | None = self.process.problem
        return problem

    def send_work(self, pieces: list[Piece], pickle_of: Callable[[int], bytes]) -> None:
        """Send pieces, with the functions that it does not have yet."""
        with self._sending:
            needed = {piece.function for piece in pieces if piece.function} - self.known
            functions = {number: pickle_of(number) for number in needed} if needed else {}
            self.known |= needed
            forget, self.forget = self.forget, []
            self._send(Work(pieces=pieces, functions=functions, forget=forget))

    def send(self, message: Any) -> None:
        """Send a message; when the worker has gone, its end is noticed elsewhere."""
        with self._sending:
            self._send(message)

    def dismiss(self) -> None:
        """Let it exit when it has done what it has."""
        self.is_dismissed = True
        self.send(Leave())

    def rest(self) -> list[ToOwner]:
        """What it has said and nobody has read, now that it has ended."""
        messages: list[ToOwner] = []
        with contextlib.suppress(EOFError, OSError):
            while select.select([self.channel], [], [], 0)[0]:
                messages += self.channel.receive()
        return messages

    def close(self) -> None:
        """Close the connection."""
        with self._sending:
            if not self.is_gone:
                self.is_gone = True
                self.channel.close()

    def _send(self, message: Any) -> None:
        if not self.is_gone:
            with contextlib.suppress(OSError):
                self.channel.send(message)


def hire(
    tie: Tie,
    make_process: Callable[..., Any],
    context: Any,
    initializer: Callable[..., object] | None,
    initargs: Iterable[Any],
    needs: Mapping[str, float],
) -> Member:
    """Start a worker; it says when it is ready. Raises what its start raises, and `NotConnected`.

    Parameters
    ----------
    make_process : called as the library's ``Pool.Process``.
    needs : what it asks the cluster for, as `fibernb.meta` has it.
    """
    tie.check()
    ours, theirs = Pipe()
    with theirs:
        try:
            process = make_process(context, target=work, args=(theirs, initializer, initargs))
            process.name = process.name.replace("Process", "PoolWorker")
            process.daemon = True
            process.tells_problem = False  # the pool's results do
            if needs:
                setattr(process, ATTRIBUTE, dict(needs))
            process.start()
        except BaseException:
            ours.close()
            raise
    return Member(process, Channel(ours, to_owner))


def end(processes: Iterable[Any]) -> None:
    """End processes, with force if need be, and wait until they have ended."""
    with contextlib.suppress(ClusterError):
        alive = [process for process in processes if process.exitcode is None]
        for process in alive:
            process.terminate()
        for process in alive:
            process.join(TERMINATE_GRACE_S)
            if process.exitcode is None:
                util.info(f"{process.name} has not ended {TERMINATE_GRACE_S:g} s after SIGTERM")
                process.kill()
                process.join()
