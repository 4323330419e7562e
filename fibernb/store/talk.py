"""Readers of what is said on the links of a store."""

from __future__ import annotations

from typing import Final, TypeAlias

from fibernb.wire.codec import MAX_HELLO_BYTES, Reader
from fibernb.wire.handshake import Refused
from fibernb.wire.storetalk import StoreAnswer, StoreHello, StoreRequest

MAX_BYTES: Final = 2**27  # of one message: lists of blocks may be long

Answer: TypeAlias = StoreAnswer | Refused

hello: Final[Reader[StoreHello]] = Reader(StoreHello, MAX_HELLO_BYTES)
from_user: Final[Reader[StoreRequest]] = Reader(StoreRequest, MAX_BYTES)
to_user: Final[Reader[Answer]] = Reader(Answer, MAX_BYTES)
