"""What arrives from the hub, and who is told of it.

Messages are taken in by whoever reads; callbacks are queued meanwhile and run afterwards, outside of every lock and of
the lead, so that a callback may do anything, wait included.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from fibernb.client.books import Books
from fibernb.client.refs import run_callbacks
from fibernb.client.requests import Requests
from fibernb.core.messages import (
    ActorFound,
    Deliver,
    Display,
    HubStops,
    Met,
    Output,
    Progress,
    Recovered,
    Said,
    SeatsChanged,
    State,
    Status,
    Synced,
)
from fibernb.errors import NotConnected
from fibernb.model import TaskId, rank_name
from fibernb.wire import codec
from fibernb.wire.handshake import Refused, Welcome

log: Final = logging.getLogger(__name__)


class Inbox:
    """Decodes what arrives, settles references, and keeps the callbacks that are due.

    Parameters
    ----------
    books : the session's bookkeeping.
    requests : take the answers of the hub.
    on_stop : told why, when the hub says that the cluster ends.
    """

    def __init__(self, books: Books, requests: Requests, on_stop: Callable[[NotConnected], object]) -> None:
        self.seats: SeatsChanged | None = None
        self.requests = requests
        self.status: Status | None = None
        self.on_said: Callable[[Said], object] = print_said  # for tasks that nobody listens to
        self.on_met: Callable[[Met], object] = self._take_nothing
        self.on_seats: list[Callable[[SeatsChanged], object]] = []
        self._books = books
        self._on_stop = on_stop
        self._listeners: dict[TaskId, _Listener] = {}
        self._calls: deque[Callable[[], object]] = deque()
        self._calling = threading.Lock()
        self._takers: dict[type, Callable[[Any], None]] = {
            Deliver: self._take_deliver,
            Output: self._take_said,
            Display: self._take_said,
            Progress: self._take_said,
            SeatsChanged: self._take_seats,
            Status: self._take_status,
            ActorFound: requests.take,
            Met: self._take_met,
            State: requests.take,
            Synced: requests.take,
            HubStops: self._take_stop,
            Recovered: self._take_nothing,
            Welcome: self._take_nothing,
            Refused: self._take_refusal,
        }

    def take_in(self, messages: Iterable[bytes]) -> None:
        """Decode and book messages. Raises `ProtocolError` for what is none."""
        for data in messages:
            message = codec.to_client.decode(data)
            self._takers[type(message)](message)

    def listen(self, tasks: Iterable[TaskId], listener: Callable[[Said], object]) -> None:
        """Tell ``listener`` everything that these tasks say, until they are done."""
        self._listeners.update((task, _Listener(listener)) for task in tasks)

    @property
    def has_calls(self) -> bool:
        """Whether callbacks are due that nobody runs yet."""
        return bool(self._calls) and not self._calling.locked()

    def call_back(self) -> None:
        """Run the callbacks that are due, in order, unless another thread does so already."""
        while self._calls and self._calling.acquire(blocking=False):
            try:
                while self._calls:
                    self._calls.popleft()()
            finally:
                self._calling.release()

    def catch_up(self, timeout_s: float) -> bool:
        """Return when the callbacks that are due by now have run; False if they have not in that time.

        Not to be called by a callback.
        """
        if not (self._calls or self._calling.locked()):
            return True
        done = threading.Event()
        self._calls.append(done.set)
        self.call_back()
        return done.wait(timeout_s)

    def fail(self, error: Exception) -> None:
        """Answer everything that is unanswered with an error."""
        self.queue(self._books.fail(error))

    def _take_deliver(self, message: Deliver) -> None:
        due = self._books.settle(message)
        if due:
            self.queue(due)
        if self._listeners:
            self._calls.append(lambda: self._stop_listening(message))

    def queue(self, due: list[Any]) -> None:
        """Have callbacks run with the next `call_back`."""
        for ref, callbacks in due:
            self._calls.append(lambda ref=ref, callbacks=callbacks: run_callbacks(ref, callbacks))  # type: ignore[misc]

    def _stop_listening(self, message: Deliver) -> None:
        for result in message.results:
            self._listeners.pop(result.id, None)

    def _take_said(self, message: Said) -> None:
        self._calls.append(lambda: self._tell(message))

    def _tell(self, message: Said) -> None:
        listener = self._listeners.get(message.task)
        try:
            if listener is None:
                self.on_said(message)
            elif listener.is_new(message):
                listener.callback(message)
        except Exception:
            log.exception("a listener failed to take output of task %x", message.task)

    def _take_seats(self, message: SeatsChanged) -> None:
        self.seats = message
        for callback in self.on_seats:
            self._calls.append(lambda callback=callback: callback(message))  # type: ignore[misc]

    def _take_status(self, message: Status) -> None:
        self.status = message
        self.requests.take(message)
        self.seats = SeatsChanged(
            seats=message.seats, ready=message.ready, starting=message.starting, problem=message.problem
        )

    def _take_met(self, message: Met) -> None:
        self.on_met(message)

    def _take_stop(self, message: HubStops) -> None:
        self._on_stop(NotConnected(f"the cluster has ended: {message.reason}"))

    def _take_refusal(self, message: Refused) -> None:
        self._on_stop(NotConnected(f"the hub has closed the link: {message.reason}"))

    def _take_nothing(self, message: object) -> None:
        """A greeting that needs no answer."""


class _Listener:
    """Who is told what a task says, each message once, though a hub that starts again may repeat some."""

    def __init__(self, callback: Callable[[Said], object]) -> None:
        self.callback = callback
        self._next = 0

    def is_new(self, message: Said) -> bool:
        if message.sequence < self._next:
            return False
        self._next = message.sequence + 1
        return True


def print_said(message: Said) -> None:
    """Write what a plain task prints to this process's own stdout or stderr, with the rank that wrote it."""
    if isinstance(message, Output):
        stream = sys.stderr if message.stream == "stderr" else sys.stdout
        lines = message.text.splitlines(keepends=True)
        whose = rank_name(message.rank).removeprefix("rank ")
        stream.write("".join(f"({whose}) {line}" for line in lines))
        stream.flush()
