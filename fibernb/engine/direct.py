"""The calls that clients send to this engine themselves: taken at its door, run, answered.

What came of a call goes back at once if it is a small value and nothing else. If the call has printed, submitted or
failed, or its value is large, then the hub has to hear of it, in order: so the client is told to ask there, and when
the hub sends the call the result is ready (`fibernb.engine.ledger`).

What the hub has sent by the time that a call is taken in may have been submitted before that, unless it is of the same
client: so the calls of others run before it, and those of its own client after it. Hence a call at the door is begun
only when, after it was taken in, nothing was found to have come from the hub.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from fibernb.core.messages import Ran
from fibernb.engine.batches import Batch
from fibernb.engine.door import Door, Knock
from fibernb.engine.ledger import Ended, Ledger
from fibernb.engine.reporter import Reporter
from fibernb.engine.surroundings import Surroundings
from fibernb.errors import FibernbError
from fibernb.model import Call, ClientId, Outcome, Result, TaskId, client_of
from fibernb.transport import Link, Peer
from fibernb.wire.direct import Answered, AskHub

MAX_ANSWER_BYTES: Final = 64 * 1024  # larger values take the usual way


class DirectCalls:
    """Belongs to the main thread, but for `report`.

    Parameters
    ----------
    work : runs a call, or has it run, and sees to it that `end` hears what came of it.
    """

    def __init__(
        self, ledger: Ledger, reporter: Reporter, surroundings: Surroundings, work: Callable[[Knock], object]
    ) -> None:
        self.door: Door | None = None
        self._ledger = ledger
        self._reporter = reporter
        self._surroundings = surroundings
        self._work = work
        self._inputs = _Inputs()
        self._waiting: list[Knock] = []
        self._peers: dict[TaskId, tuple[Peer, object]] = {}  # who waits for a call, and what had been sent before it
        self._ran: deque[tuple[TaskId, float, float]] = deque()  # that the hub has not been told of
        self._name = ""  # of the last of them

    @property
    def has_news(self) -> bool:
        """Whether there is something to `report`."""
        return bool(self._ran)

    def open(self, door: Callable[[], Door]) -> None:
        """Clients are about to come. Where no socket can be made they go on by way of the hub."""
        if self.door is None:
            with contextlib.suppress(FibernbError, OSError):
                self.door = door()

    def await_link(self, link: Link, serve: Callable[[], object]) -> list[bytes]:
        """What comes over a link while the door is open. ``serve`` is called when there are calls meanwhile.

        Raises `NotConnected` when the link is gone.
        """
        assert self.door is not None
        inputs = self._inputs
        inputs.watch(link.fileno(), self.door.fileno())
        while True:
            if not link.quiet and (data := link.receive(0)):
                return data
            from_link, at_door = inputs.wait(0 if self._waiting else None)
            if at_door and not self._waiting:
                self.listen()
                from_link = inputs.wait(0)[0]  # by the time that it was taken in
            if from_link and (data := link.receive(0)):
                return data
            serve()

    def listen(self, *, all_of_it: bool = False) -> None:
        """Take in what has arrived. ``all_of_it``: nothing that was sent before now may be missed."""
        if self.door is not None:
            self._waiting += self.door.take(all_of_it=all_of_it)

    def serve(self, client: ClientId | None = None) -> None:
        """Run what was taken in; only the call of this client, if one is given."""
        waiting, self._waiting = self._waiting, []
        for knock in waiting:
            if client is None or client_of(knock.run.calls[0].id) == client:
                self._begin(knock)
            else:
                self._waiting.append(knock)

    @property
    def waits(self) -> bool:
        """Whether there is something to `serve`."""
        return bool(self._waiting)

    def shut(self) -> None:
        """Take no more."""
        if self.door is not None:
            self._waiting.clear()
            self.door.shut()
            self.door = None

    def _begin(self, knock: Knock) -> None:
        assert self.door is not None
        task = knock.run.calls[0].id
        self._ledger.answers.pop(self.door.follow(knock.peer, task), None)
        self._peers[task] = knock.peer, self._surroundings.sent()
        self._work(knock)

    def owns(self, task: TaskId) -> bool:
        """Whether this is such a call, and has not ended."""
        return task in self._peers

    def end(self, batch: Batch, call: Call, result: Result, began_s: float) -> bool:
        """A call has come to this result; whether it has been answered with it."""
        peer, sent = self._peers.pop(call.id)
        run_s = time.monotonic() - began_s
        plain = self._is_plain(result) and sent == self._surroundings.sent()
        if self.door is not None:  # first of all, for the client waits, and the books do not
            self.door.answer(peer, Answered(result=result) if plain else AskHub(task=call.id))
        self._ledger.end_direct(Ended(result, began_s, run_s))
        if plain:
            self._ran.append((call.id, began_s, run_s))
            self._name = batch.name
        return plain

    def give_up(self, call: Call) -> None:
        """A call has ended the actor instead of itself."""
        peer, _ = self._peers.pop(call.id)
        self._ledger.direct.pop(call.id, None)
        if self.door is not None:
            self.door.answer(peer, AskHub(task=call.id))

    def _is_plain(self, result: Result) -> bool:
        if result.outcome is not Outcome.OK or result.blocks or result.refs or result.more:
            return False
        reporter = self._reporter
        return len(result.value) <= MAX_ANSWER_BYTES and not (reporter.has_news or reporter.has_said(result.id))

    def report(self) -> Ran | None:
        """What the hub has not been told of yet. From any thread."""
        ran = [self._ran.popleft() for _ in range(len(self._ran))]
        if not ran:
            return None
        run_s = sum(seconds for _, _, seconds in ran)
        return Ran(tasks=[task for task, _, _ in ran], name=self._name, run_s=run_s, began_s=ran[0][1])


class _Inputs:
    """Waits for either of two descriptors."""

    def __init__(self) -> None:
        self._first = self._second = -1
        self._poll = select.poll()

    def watch(self, first: int, second: int) -> None:
        """From now on wait for these."""
        if (first, second) != (self._first, self._second):
            self._first, self._second = first, second
            self._poll = select.poll()
            self._poll.register(first, select.POLLIN)
            self._poll.register(second, select.POLLIN)

    def wait(self, timeout_s: float | None = None) -> tuple[bool, bool]:
        """Which of them may be read."""
        first = second = False
        for fd, _ in self._poll.poll(timeout_s):
            if fd == self._first:
                first = True
            else:
                second = True
        return first, second
