"""What a collective works on: small values as a whole, large ones piece by piece. See `arrays` for what is combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import msgspec

from fibernb.collectives.schedule import Chunk, Deed, Span

Room: TypeAlias = Callable[[int], memoryview]  # memory for so many bytes that are to be sent


class Memory(Protocol):
    """One member's part of a collective."""

    def give(self, chunk: Chunk, room: Room) -> None:
        """Put a chunk that begins here into the room."""

    def take(self, chunk: Chunk, deed: Deed, content: memoryview, room: Room) -> None:
        """Do with a chunk that came in what is to be done. The room is asked for only if it goes on."""


class Blobs:
    """Bytes by position, of lengths that nobody knows before they are there.

    Parameters
    ----------
    own : what this member brings.

    ``found`` is what there is in all, when the collective is done.
    """

    def __init__(self, own: Mapping[int, bytes]) -> None:
        self.found = dict(own)

    def give(self, chunk: Chunk, room: Room) -> None:  # noqa: ARG002  there is only one
        _write(self.found, room)

    def take(self, chunk: Chunk, deed: Deed, content: memoryview, room: Room) -> None:  # noqa: ARG002
        came = msgspec.msgpack.decode(content, type=dict[int, bytes])
        if deed.reduce:
            came |= self.found
        if deed.keep:
            self.found = came
        if deed.forward:
            _write(came, room)


class Pieces:
    """Memory that is handed round as it is.

    Parameters
    ----------
    parts : by the position where each begins. That of this member is read, the others are filled.
    spans : where each part lies among the bytes of all.
    """

    def __init__(self, parts: Mapping[int, memoryview], spans: Mapping[int, Span]) -> None:
        self._parts = parts
        self._spans = spans

    def give(self, chunk: Chunk, room: Room) -> None:
        room(chunk.stop - chunk.start)[:] = self._piece(chunk)

    def take(self, chunk: Chunk, deed: Deed, content: memoryview, room: Room) -> None:
        self._piece(chunk)[:] = content
        if deed.forward:
            room(len(content))[:] = content

    def _piece(self, chunk: Chunk) -> memoryview:
        begin = self._spans[chunk.origin].start
        return self._parts[chunk.origin][chunk.start - begin : chunk.stop - begin]


def _write(blobs: dict[int, bytes], room: Room) -> None:
    data = msgspec.msgpack.encode(blobs)
    room(len(data))[:] = data
