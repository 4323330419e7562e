"""Bytes to typed messages and back. What does not fit its type is refused here, before anything looks at it."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

import msgspec

from fibernb.core.messages import ClientMessage, EngineMessage, Message, ToClient, ToEngine
from fibernb.errors import ProtocolError
from fibernb.wire.handshake import Hello, NodeMessage, Refused, ToNode, Welcome

M = TypeVar("M")

MAX_MESSAGE_BYTES: Final = 2**30
MAX_HELLO_BYTES: Final = 2**20

_encoder: Final = msgspec.msgpack.Encoder()


def encode(message: Message) -> bytes:
    """One message as msgpack.

    Raises `ProtocolError` when it is larger than any peer would accept.
    """
    data = _encoder.encode(message)
    if len(data) > MAX_MESSAGE_BYTES:
        raise ProtocolError(
            f"a {type(message).__name__} message of {len(data):,} bytes is over the limit of {MAX_MESSAGE_BYTES:,}: "
            "send the data in smaller parts"
        )
    return data


class Reader(Generic[M]):
    """Decodes the messages that one kind of peer may send."""

    def __init__(self, union: Any, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(union)
        self._max_bytes = max_bytes

    def decode(self, data: bytes | memoryview) -> M:
        """The message, or `ProtocolError` when it is none that this peer may send."""
        if len(data) > self._max_bytes:
            raise ProtocolError(f"a message of {len(data):,} bytes is over the limit of {self._max_bytes:,}")
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProtocolError(f"a malformed message of {len(data):,} bytes: {error}") from error


hello: Final[Reader[Hello]] = Reader(Hello, MAX_HELLO_BYTES)
from_client: Final[Reader[ClientMessage]] = Reader(ClientMessage)
from_engine: Final[Reader[EngineMessage]] = Reader(EngineMessage)
from_node: Final[Reader[NodeMessage]] = Reader(NodeMessage)
to_client: Final[Reader[ToClient | Welcome | Refused]] = Reader(ToClient | Welcome | Refused)
to_engine: Final[Reader[ToEngine | Welcome | Refused]] = Reader(ToEngine | Welcome | Refused)
to_node: Final[Reader[ToNode]] = Reader(ToNode)
