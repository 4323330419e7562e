"""The engine's links to the hub: opened, broken, opened again, with nothing lost in between."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from fibernb.core.messages import ActorExits, ActorRecord, Checkpoint, Done, Message, ProcessExits
from fibernb.engine.ledger import Ledger
from fibernb.engine.reporter import Reporter
from fibernb.errors import FibernbError, NotConnected
from fibernb.transport import Link, dial
from fibernb.wire import codec, credentials
from fibernb.wire.handshake import ControlHello, EngineHello, Refused, Seat

DIAL_TIMEOUT_S: Final = 1.0
WELCOME_TIMEOUT_S: Final = 30.0  # of a hub that greets a thousand engines at once
RETRY_S: Final = 0.2
KEPT_BYTES: Final = 1_000_000  # of what tasks said, in case that a new hub has to be told


class RefusedByHub(FibernbError):
    """The hub does not talk to this engine: its seat has gone to another one, or never was."""


class _Kept:
    """What tasks said whose results are not known to have arrived."""

    def __init__(self) -> None:
        self._messages: deque[tuple[int, bytes]] = deque()
        self._size_bytes = 0

    def add(self, task: int, data: bytes) -> None:
        self._messages.append((task, data))
        self._size_bytes += len(data)
        while self._size_bytes > KEPT_BYTES:
            self._size_bytes -= len(self._messages.popleft()[1])

    def forget(self, dones: list[Done]) -> None:
        if self._messages and dones:
            finished = {result.id for done in dones for result in done.results}
            self._messages = deque(kept for kept in self._messages if kept[0] not in finished)
            self._size_bytes = sum(len(data) for _, data in self._messages)

    def all(self) -> list[bytes]:
        return [data for _, data in self._messages]


class Post:
    """The two links of an engine. ``send`` and ``link`` are safe from any thread, `open` belongs to the control thread.

    Parameters
    ----------
    on_break : called, from whichever thread notices, when the data link is gone.
    send_calls : called before results are sent; it sends the calls that their tasks have submitted.
    """

    def __init__(
        self,
        address: str,
        key: str,
        ledger: Ledger,
        on_break: Callable[[], object],
        send_calls: Callable[[], object],
    ) -> None:
        self.seat = Seat(engine=0, rank=0)
        self.on_open: Callable[[], object] | None = None  # called by the control thread when there is a new data link
        self.key = key
        self._address = address
        self._credentials = credentials(key)
        self._ledger = ledger
        self._on_break = on_break
        self._send_calls = send_calls
        self._sending = threading.RLock()
        self._ready = threading.Condition(self._sending)
        self._kept = _Kept()
        self._forgotten = 0
        self._data: Link | None = None
        self._generation = 0
        self._control: Link | None = None
        self._attempt = 0  # to dial, counted
        self._actor: ActorRecord | None = None
        self._exits: ActorExits | ProcessExits | None = None

    # ---- opening -----------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._data is not None

    def open(self) -> Link:
        """Dial until there is a hub, tell it where things stand, and send again what may not have arrived.

        Returns the control link.
        """
        while True:
            self.close()
            self._attempt += 1
            try:
                self._control = dial(self._address, DIAL_TIMEOUT_S)
                self._open_data(self._control)
            except NotConnected:
                time.sleep(RETRY_S)
            else:
                return self._control

    def _open_data(self, control: Link) -> None:
        hello = ControlHello(credentials=self._credentials, engine=self.seat.engine, attempt=self._attempt)
        control.send(codec.encode(hello))
        _require_welcome(control)
        data = dial(self._address, DIAL_TIMEOUT_S)
        with self._sending:
            generation = self._introduce(data)
            self._data, self._generation = data, generation
            self._ready.notify_all()
        if self.on_open is not None:
            self.on_open()

    def _introduce(self, data: Link) -> int:
        standing, generation = self._ledger.restand()
        hello = EngineHello(
            credentials=self._credentials,
            engine=self.seat.engine,
            rank=self.seat.rank,
            pid=os.getpid(),
            received=standing.received,
            holds=standing.holds,
            running=standing.running,
            redelivers=len(standing.redelivers),
            actor=None if self._actor is None else msgspec.structs.replace(self._actor, checkpoint=None),
            attempt=self._attempt,
        )
        data.send(_hello_that_fits(hello))
        for message in [*self._actors_state(), *self._kept.all(), *map(codec.encode, standing.redelivers)]:
            data.send(message)
        return generation

    def _actors_state(self) -> list[bytes]:
        """What a new hub has to know of the actor beyond its record, which may be large."""
        checkpoint = None if self._actor is None else self._actor.checkpoint
        messages: list[Message] = [] if checkpoint is None else [Checkpoint(state=checkpoint)]
        return [codec.encode(message) for message in (*messages, *([self._exits] if self._exits else []))]

    def close(self) -> None:
        """Give both links up."""
        with self._sending:
            for link in (self._data, self._control):
                if link is not None:
                    link.close()
            self._data = self._control = None

    def disown(self) -> None:
        """In a process that a task has forked: cover the descriptors of the links, which are the engine's."""
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for link in (self._data, self._control):
            if link is not None:
                os.dup2(nothing, link.fileno(), inheritable=False)
        os.close(nothing)

    # ---- using -------------------------------------------------------------------------------------------

    def link(self) -> tuple[Link, int]:
        """The data link and its generation; waits for it while it is broken."""
        with self._sending:
            while self._data is None:
                self._ready.wait()
            return self._data, self._generation

    def broken(self, link: Link) -> None:
        """That data link is gone; the control thread opens another."""
        with self._sending:
            if link is not self._data:
                return
            self._data = None
        self._on_break()

    def send_news(self, reporter: Reporter) -> bool:
        """What tasks said, then the results there are; tells whether there was any of it.

        While the link is broken, both are kept for the next one. Results are packed first: so whatever their tasks said
        or submitted is among what is sent before them. Who has a result finds done what its task has asked for.
        """
        with self._sending:
            done = self._ledger.pack()
            try:
                if done is not None:
                    self._send_calls()
            finally:
                is_news = self._send_packed(done, reporter)
            return is_news

    def _send_packed(self, done: Done | None, reporter: Reporter) -> bool:
        said = reporter.take() if reporter.has_news else []
        for message in said:
            data = codec.encode(message)
            self._kept.add(message.task, data)
            self._send(data)
        if done is not None:
            self._send(codec.encode(done))
        return done is not None or bool(said)

    def keep_actor(self, record: ActorRecord) -> None:
        """The actor that lives here, as a later hub is to be told."""
        with self._sending:
            self._actor = record

    def save(self, record: ActorRecord) -> None:
        """The actor has a new checkpoint; the result of the call that it follows is sent after it."""
        assert record.checkpoint is not None
        with self._sending:
            self._actor = record
            self._send(codec.encode(Checkpoint(state=record.checkpoint)))

    def exits(self, message: ActorExits | ProcessExits) -> None:
        """The actor has ended itself, or is about to end with its process."""
        with self._sending:
            self._exits = message
            self._send(codec.encode(message))

    def send(self, message: Message) -> None:
        """A message that means nothing to a later hub."""
        with self._sending:
            self._send(codec.encode(message))

    def _send(self, data: bytes) -> None:
        link = self._data
        if link is None:
            return
        try:
            link.send(data)
        except NotConnected:
            self.broken(link)

    def forget(self, sequence: int) -> None:
        """Results up to this `Done` have arrived. The hub says so with every message, mostly nothing new."""
        if sequence <= self._forgotten:
            return
        self._forgotten = sequence
        dones = self._ledger.forget(sequence)
        if dones:
            with self._sending:
                self._kept.forget(dones)


def _hello_that_fits(hello: EngineHello) -> bytes:
    """A hub takes no longer ones from whom it does not know; its client may tell it of the actor."""
    data = codec.encode(hello)
    return data if len(data) <= codec.MAX_HELLO_BYTES else codec.encode(msgspec.structs.replace(hello, actor=None))


def _require_welcome(link: Link) -> None:
    answers = link.receive(WELCOME_TIMEOUT_S)
    if not answers:
        raise NotConnected("the hub did not answer")
    answer = codec.to_engine.decode(answers[0])
    if isinstance(answer, Refused):
        raise RefusedByHub(answer.reason)
