"""The link of a session: who sends, who reads, and what happens when it breaks.

Sending and reading are safe against Ctrl-C (`fibernb.client.interrupts`). Should anything else cut a message in two,
such as a signal handler that raises, the link counts as broken: a new one is opened and nothing is lost, because the
hub keeps what is not acknowledged and the ledger what is not answered.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from fibernb.client.books import Books
from fibernb.client.dialing import Connector, Opened
from fibernb.client.inbox import Inbox
from fibernb.client.interrupts import Deferral
from fibernb.client.receipts import ACKNOWLEDGE_S
from fibernb.client.turns import Turns
from fibernb.client.values import PARTING_S
from fibernb.core.messages import Goodbye, Message
from fibernb.errors import BackendError, FibernbError, NotConnected
from fibernb.model import ClientId
from fibernb.transport import Link
from fibernb.wire import codec

TICK_S: Final = 0.002  # how often the background thread looks while others read
STEADY_TICKS: Final = 10  # how many times it looks before it takes it that one of them waits for long
FLUSH_S: Final = 0.001  # how long a call waits for company before it leaves
HOT_S: Final = 0.01  # how long the background thread stays alert after something was submitted
FOLLOW_S: Final = 0.05  # how long an interrupt may wait for a thread that follows
JOIN_S: Final = 2.0

log: Final = logging.getLogger(__name__)


class Line:
    """The link to the hub, shared by all threads of a session.

    Parameters
    ----------
    connector : opens links.
    books : gives what is to be sent.
    inbox : takes what arrives.
    lent : tells what a hub has to know of tasks whose seats are lent.
    """

    def __init__(self, connector: Connector, books: Books, inbox: Inbox, lent: Callable[[], Iterable[Message]]) -> None:
        self.cold = False  # the background thread sleeps until somebody wakes it
        self.over: FibernbError | None = None
        self._all_told = threading.Event()  # what was unanswered has its error
        self._connector = connector
        self._books = books
        self._inbox = inbox
        self._lent = lent
        self._client: ClientId = 0
        self._link: Link | None = None
        self.turns = Turns(books.mutex)
        self.deferral = Deferral(self.turns.wake)
        self._sending = threading.RLock()
        self._in_flush = False
        self._closing = False
        self._hot_until = 0.0
        self._led = self._ticks = 0  # whose turn the background thread has seen, and how often
        self._thread = threading.Thread(target=self._serve, name="fibernb-session", daemon=True)

    def open(self) -> Opened:
        """Open the first link and start the background thread."""
        opened = self._connector.connect()
        self._client = opened.client
        self.turns.watch(opened.link.fileno())
        self._inbox.take_in(opened.backlog)
        self._link = opened.link
        try:
            self._thread.start()
        except RuntimeError as error:
            self._lose(opened.link)
            raise BackendError(
                "the system does not let this process start a thread: end some processes, or raise the limit "
                "(ulimit -u)"
            ) from error
        return opened

    # ---- sending -----------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send everything that waits to be sent."""
        with self.deferral:
            self._flush()

    @property
    def is_sending(self) -> bool:
        """Whether some of what waits no more has not left yet."""
        return self._in_flush

    def warm_up(self) -> None:
        """Something waits to be sent: see that the background thread sends it soon."""
        if self.cold:
            self.cold = False
            self.turns.wake()
            self.turns.rouse()

    def _flush(self) -> None:
        with self._sending:
            link = self._link
            if link is None or self._in_flush:
                return
            self._in_flush = True
            try:
                for message in self._books.outgoing():
                    link.send(codec.encode(message))
            except NotConnected:
                self._lose(link)
            except FibernbError as error:  # a message that cannot be sent would be in the way for ever
                self.end(error)
            except BaseException:
                self._lose(link)
                raise
            finally:
                self._in_flush = False

    # ---- reading -----------------------------------------------------------------------------------------

    def wait(self, done: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Send what waits, then take in what arrives until ``done()``; False after ``timeout_s``.

        Raises `NotConnected` when the session ends without it.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self.deferral:
                self._flush()
                is_done = self._listen(done, deadline)
            self._inbox.call_back()
            if is_done or done():
                return True
            if self.over is not None:
                self._all_told.wait()
                if done():
                    return True
                raise NotConnected(str(self.over)) from self.over
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def _listen(self, done: Callable[[], bool], deadline: float | None) -> bool:
        """Until done, the deadline, an interrupt, or callbacks that are due. Whether it is done."""
        while True:
            if self._link is not None and self.turns.take():
                if self._lead(done, deadline):
                    return True
            else:
                self._stay(done, _left_s(deadline))
                if done():
                    return True
            if self._is_disturbed() or _left_s(deadline) == 0:
                return False

    def _lead(self, done: Callable[[], bool], deadline: float | None) -> bool:
        """Read until done, the deadline, or something else is to be seen to. Whether it is done."""
        try:
            while not done():
                left = _left_s(deadline)
                if self._is_disturbed() or self._link is None:
                    return False
                self._read(left)
                if left == 0:
                    return done()
            return True
        finally:
            self.turns.leave()

    def _stay(self, done: Callable[[], bool], left: float | None) -> None:
        """Wait for a moment at most, without the lead: there is no link, another thread reads, or we do already."""
        pause = FOLLOW_S if left is None else min(left, FOLLOW_S)
        if self._link is None:
            self.turns.rest(done, pause)
        elif self.turns.leads():
            self._read(left)
        else:
            self.turns.follow(done, pause)

    def _is_disturbed(self) -> bool:
        return self._inbox.has_calls or self.over is not None or (self.deferral.noted and self.deferral.pending())

    def _read(self, timeout_s: float | None) -> None:
        """Take in what has arrived, waiting for it once. Only the leader reads."""
        link = self._link
        if link is None:
            return
        waits = timeout_s is None or timeout_s > 0
        if not (waits and link.quiet) and self._take_arrived(link):
            return
        if waits and self.turns.await_input(timeout_s):
            self._take_arrived(link)

    def _take_arrived(self, link: Link) -> bool:
        try:
            messages = link.receive(0)
            if messages:
                self._inbox.take_in(messages)
                self.turns.announce()
                if self.turns.sleeps and self._books.receipts.owed:
                    self.turns.rouse()
            return bool(messages)
        except NotConnected:
            self._lose(link)
        except FibernbError as error:
            self.end(error)
        except BaseException:
            self._lose(link)
            raise
        return True  # something has happened

    # ---- the background thread ---------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._closing and self.over is None:
            if self._link is None:
                self._reconnect()
            elif self.turns.take_in_background():
                self._serve_turn()
            else:
                self._stand_by()
            self._flush_due()
            self._inbox.call_back()
        if not self._closing:
            self._hang_up()

    def _serve_turn(self) -> None:
        """Read until somebody else wants to, or callbacks are due."""
        try:
            while not (self.turns.wanted() or self._is_disturbed() or self._closing or self._link is None):
                self._read(self._patience_s())
                self.cold = False
                self._flush_due()
        finally:
            self.turns.leave()

    def _stand_by(self) -> None:
        """Somebody else reads: look again soon, or once he has stopped if he has been reading for a while."""
        led = self.turns.led
        self._ticks = self._ticks + 1 if led == self._led else 0
        self._led = led
        if self._ticks < STEADY_TICKS:
            time.sleep(TICK_S)
        else:
            self.turns.stand_by(led, self._patience_s)
            self.cold = False

    def _patience_s(self) -> float | None:
        if time.monotonic() < self._hot_until:
            return FLUSH_S
        self.cold = True  # before the look: who submits afterwards wakes us
        if self._books.unsent:
            self.cold = False
            return FLUSH_S
        if self._books.receipts.owed:
            return ACKNOWLEDGE_S
        return PARTING_S if self._books.values.part_at < math.inf else None

    def _flush_due(self) -> None:
        if self._books.wants_flush():
            self._hot_until = time.monotonic() + HOT_S
            self._flush()

    # ---- breaks ------------------------------------------------------------------------------------------

    def _lose(self, link: Link) -> None:
        """The link is broken: the background thread opens another."""
        with self._books.mutex:
            if self._link is not link:
                return
            self._link = None
        link.close()
        self.turns.wake()
        self.turns.announce()

    def _reconnect(self) -> None:
        try:
            opened = self._connector.reconnect(self._client)
        except (FibernbError, OSError) as error:
            self.end(error if isinstance(error, FibernbError) else NotConnected(str(error)))
            return
        while not self.turns.take():  # somebody still looks at the old link
            self.turns.wake()
            time.sleep(TICK_S)
        try:
            self.turns.watch(opened.link.fileno())
            self._books.restart(opened.fresh, [*self._lent(), *self._inbox.requests.open()])
            self._inbox.take_in(opened.backlog)
            self._link = opened.link
        finally:
            self.turns.leave()
        if self.over is not None:
            self._hang_up()  # the session was closed meanwhile, by one who has not waited for us

    def end(self, error: FibernbError) -> None:
        """The session is over: what is unanswered fails with ``error``."""
        with self._books.mutex:
            if self.over is not None:
                return
            self.over = error
        try:
            self._connector.leave()
            self._inbox.fail(error)
        finally:
            self._all_told.set()
        self.turns.wake()
        self.turns.announce()

    def close(self, goodbye: Goodbye) -> None:
        """Take leave of the hub, and end."""
        self._closing = True  # first: the hub hangs up at a goodbye, and nobody shall call it again
        if self.over is None:
            self._books.send(goodbye)
            self.flush()
        gone = "what was on it is gone for this process: call tasks, and make actors and values, anew"
        self.end(NotConnected(f"the session with cluster {self._connector.name} has been closed; {gone}"))
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN_S)
        self._hang_up()
        self._inbox.call_back()

    def _hang_up(self) -> None:
        with self._books.mutex:
            link, self._link = self._link, None
        if link is not None:
            link.close()

    def forsake(self) -> None:
        """In a forked child: let go of the parent's link without a word to the hub."""
        if self._link is not None:
            self.turns.forsake()


def _left_s(deadline: float | None) -> float | None:
    """The seconds until then, 0 when it is over; None for ever."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())
