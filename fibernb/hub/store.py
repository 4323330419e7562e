"""The driver's side of the object store: which blocks are needed is told to its process, and nothing is asked of it.

The store is a child of the node and starts when somebody connects to it. The hub does so when it has something to say
for the first time, and never waits for it: what does not fit into the socket follows later. A store that has died is
no error: what was to be said about its blocks has become void, and the rest is said to the next one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from fibernb.core.commands import FreeBlocks, KeepBlocks, RetainBlocks
from fibernb.hub.timers import Timers
from fibernb.model import COUNTER_BITS, BlockId
from fibernb.transport.framing import NO_WAIT, Outbox
from fibernb.wire import codec, credentials
from fibernb.wire.storetalk import Free, Keep, Retain, StoreHello

FIRST_DELAY_S: Final = 0.005  # before the next attempt to say what could not be said; doubles with each
MAX_DELAY_S: Final = 0.5
MAX_PART: Final = 100_000  # blocks in one message
SCRATCH_BYTES: Final = 4096

Told: TypeAlias = KeepBlocks | FreeBlocks | RetainBlocks


class StoreDoor(NamedTuple):
    """Where the store is dialled, and the key that it wants to see."""

    socket: Path
    key: str


class Store:
    """Tells the store of this host which blocks are needed, in the order in which the scheduler says so."""

    def __init__(self, door: StoreDoor, timers: Timers, clock: Callable[[], float]) -> None:
        self._door = door
        self._timers = timers
        self._clock = clock
        self._link: socket.socket | None = None
        self._outbox = Outbox()
        self._unsaid: list[Told] = []  # since the outbox was empty: all of it is said again to the next store
        self._pushed = 0  # how many of these are in the outbox
        self._generations: set[int] = set()  # of the blocks that are kept
        self._ended: set[int] = set()
        self._delay_s = FIRST_DELAY_S
        self._waits = False

    def tell(self, command: Told) -> None:
        """Have this said, with the next `flush`."""
        blocks = [block for block in command.blocks if _generation(block) not in self._ended]
        if not isinstance(command, FreeBlocks):
            self._generations.update(map(_generation, blocks))
        if blocks or isinstance(command, RetainBlocks):
            self._unsaid.append(type(command)(blocks=blocks))

    def flush(self) -> None:
        """Say what can be said without waiting; the rest follows by itself."""
        if self._unsaid and not self._waits:
            self._speak()

    def ended(self, generation: int) -> None:
        """The store process has ended, with all blocks of this generation."""
        self._ended.add(generation)
        self._generations.discard(generation)
        self._hang_up()
        unsaid, self._unsaid = self._unsaid, []
        for command in unsaid:
            self.tell(command)

    def all_ended(self) -> list[int]:
        """The node has ended, and any store with it: which generations of blocks are lost."""
        lost = sorted(self._generations)
        for generation in lost:
            self.ended(generation)
        self._hang_up()
        return lost

    def close(self) -> None:
        self._unsaid.clear()
        self._hang_up()

    # ---- the link --------------------------------------------------------------------------------------

    def _speak(self) -> None:
        try:
            link = self._link or self._dial()
            self._listen(link)
            self._push()
            while not self._outbox.write(link, NO_WAIT):
                continue
        except BlockingIOError:
            self._try_later()
        except OSError:
            self._hang_up()
            self._try_later()
        else:
            self._unsaid.clear()
            self._pushed = 0
            self._delay_s = FIRST_DELAY_S

    def _dial(self) -> socket.socket:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.setblocking(False)
            link.connect(str(self._door.socket))
        except OSError as error:
            link.close()
            raise ConnectionError(f"the store does not take a link: {error}") from error
        self._link = link
        hello = StoreHello(credentials=credentials(self._door.key), pid=os.getpid(), owner="hub")
        self._outbox.push(codec.encode(hello))
        return link

    def _listen(self, link: socket.socket) -> None:
        """Notice that the store has gone. What it says is passed over, and a descriptor that comes along is closed."""
        with suppress(BlockingIOError):
            while link.recv(SCRATCH_BYTES, NO_WAIT):
                continue
            raise ConnectionError("the store has hung up")

    def _push(self) -> None:
        for command in self._unsaid[self._pushed :]:
            for message in _messages(command):
                self._outbox.push(codec.encode(message))
        self._pushed = len(self._unsaid)

    def _try_later(self) -> None:
        self._waits = True
        self._timers.at(self._clock() + self._delay_s, self._try_again)
        self._delay_s = min(2 * self._delay_s, MAX_DELAY_S)

    def _try_again(self) -> None:
        self._waits = False
        self.flush()

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        self._outbox = Outbox()
        self._pushed = 0


def _generation(block: BlockId) -> int:
    return block >> COUNTER_BITS


def _messages(command: Told) -> Iterable[Keep | Free | Retain]:
    """As messages of a bearable size; only `Retain` must be whole."""
    if isinstance(command, RetainBlocks):
        return [Retain(blocks=command.blocks)]
    kind: type[Keep] | type[Free] = Keep if isinstance(command, KeepBlocks) else Free
    return [kind(blocks=command.blocks[at : at + MAX_PART]) for at in range(0, len(command.blocks), MAX_PART)]
