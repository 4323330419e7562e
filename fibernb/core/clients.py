"""Clients: what waits for them, and what they have not acknowledged.

Results wait in the outbox until the scheduler drains, then travel as one numbered `Deliver`, which stays here until
it is acknowledged and is sent again when the client comes back after a break. What tasks say while the client is away
waits in a bounded backlog: the oldest goes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from fibernb.core.messages import Deliver, Display, Output, Said
from fibernb.core.receipts import Receipt
from fibernb.core.settings import CoreSettings
from fibernb.core.states import CLIENT_MOVES, ClientState, IllegalTransition
from fibernb.model import ClientId, Digest, EngineId, ObjectId, Result, rank_name

HISTORY: Final = 8
_ATTACHED: Final = ClientState.ATTACHED


class Parcel:
    """A `Deliver` that is not acknowledged, and the receipts that depend on it. ``answers``: it has the results of the
    client's own tasks, rather than values that it has fetched.
    """

    __slots__ = ("answers", "message", "receipts")

    def __init__(self, message: Deliver, *, answers: bool) -> None:
        self.message = message
        self.answers = answers
        self.receipts: list[Receipt] = []


class Client:
    """One client. ``engine``: the one that it lives in, if it does; such a client does not keep the cluster alive.

    ``silent``: it has ended, or never was one; nobody is to be told what its tasks come to.
    """

    __slots__ = (
        "_backlog_bytes",
        "_changes",
        "_dropped",
        "_last_dropped",
        "_sequence",
        "backlog",
        "doubtful",
        "engine",
        "functions",
        "gifts",
        "id",
        "lease_s",
        "objects",
        "outbox",
        "receipts",
        "silent",
        "state",
        "unacknowledged",
    )

    def __init__(self, id_: ClientId, lease_s: float, engine: EngineId | None) -> None:
        self.id = id_
        self.lease_s = lease_s
        self.engine = engine
        self.state = ClientState.ATTACHED
        self.functions: set[Digest] = set()
        self.silent = False
        self.objects: set[ObjectId] = set()  # that it holds
        self.doubtful: set[ObjectId] = set()  # of them, those that it has not told again after a break
        self.gifts: list[Result] = []  # that it has fetched; they go the way of the outbox
        self.outbox: list[Result] = []
        self.receipts: list[Receipt] = []  # of the outbox
        self.unacknowledged: deque[Parcel] = deque()
        self.backlog: deque[Said] = deque()
        self._backlog_bytes = 0
        self._dropped = 0
        self._last_dropped: Said | None = None
        self._sequence = 0
        self._changes: deque[ClientState] = deque([self.state], maxlen=HISTORY)

    @property
    def attached(self) -> bool:
        return self.state is _ATTACHED

    def move(self, state: ClientState) -> None:
        if (self.state, state) not in CLIENT_MOVES:
            raise IllegalTransition(f"client {self.id}", self.state, state, self.history())
        self.state = state
        self._changes.append(state)

    def history(self) -> str:
        return " -> ".join(state.name for state in self._changes)

    def put(self, result: Result, receipt: Receipt | None = None) -> None:
        """Place a result into the outbox; ``receipt`` of the message that brought it."""
        self.outbox.append(result)
        if receipt is not None and (not self.receipts or self.receipts[-1] is not receipt):
            receipt.holders += 1
            self.receipts.append(receipt)

    def pack(self, settings: CoreSettings) -> list[Deliver]:
        """Everything in the outbox as numbered messages, which now wait for their acknowledgement."""
        portions = _portions(self.outbox, settings.max_deliver_bytes)
        messages = [self._parcel(results, answers=True) for results in portions]
        if messages:
            self.unacknowledged[-1].receipts, self.receipts = self.receipts, []
        self.outbox = []
        if self.gifts:
            portions = _portions(self.gifts, settings.max_deliver_bytes)
            messages += [self._parcel(results, answers=False) for results in portions]
            self.gifts = []
        return messages

    def _parcel(self, results: list[Result], *, answers: bool) -> Deliver:
        self._sequence += 1
        message = Deliver(sequence=self._sequence, results=results)
        self.unacknowledged.append(Parcel(message, answers=answers))
        return message

    def on_the_way(self) -> Iterator[Result]:
        """What has been given to this client and is not known to have arrived."""
        for parcel in self.unacknowledged:
            yield from parcel.message.results
        yield from self.outbox
        yield from self.gifts

    def keep_for_later(self, said: Said, settings: CoreSettings) -> None:
        """Add to the backlog of a client that is away."""
        self.backlog.append(said)
        self._backlog_bytes += said_bytes(said)
        while len(self.backlog) > settings.max_backlog or self._backlog_bytes > settings.max_backlog_bytes:
            self._last_dropped = self.backlog.popleft()
            self._backlog_bytes -= said_bytes(self._last_dropped)
            self._dropped += 1

    def take_backlog(self) -> list[Said]:
        """What was said while the client was away, with a line that tells how much is missing in front."""
        said = list(self.backlog)
        if self._last_dropped is not None:
            said.insert(0, _missing(self._last_dropped, self._dropped))
        self.backlog.clear()
        self._backlog_bytes = self._dropped = 0
        self._last_dropped = None
        return said


def said_bytes(said: Said) -> int:
    """About how much memory a message of a task takes."""
    if isinstance(said, Output):
        return 100 + len(said.text)
    if isinstance(said, Display):
        return 100 + len(said.content)
    return 100 + 100 * len(said.bars)


def _missing(last: Said, count: int) -> Output:
    whose = rank_name(last.rank)
    text = f"[{count} messages of output were dropped while this notebook was away: see the log of {whose}]\n"
    return Output(task=last.task, rank=last.rank, sequence=last.sequence, stream="stderr", text=text)


def _portions(results: list[Result], max_bytes: int) -> list[list[Result]]:
    """Split so that no portion of several results is larger than ``max_bytes``."""
    if sum([len(result.value) for result in results]) <= max_bytes:
        return [results] if results else []
    portions: list[list[Result]] = []
    room = 0
    for result in results:
        size = len(result.value) + sum([len(part.value) for part in result.more])
        if size > room or not portions:
            portions.append([])
            room = max_bytes
        portions[-1].append(result)
        room -= size
    return portions
