"""What the scheduler asks its driver to do. The driver does it and decides nothing."""

from __future__ import annotations

from typing import TypeAlias

from fibernb.core.messages import ToClient, ToEngine
from fibernb.model import BlockId, ClientId, EngineId, Rank, Struct


class TellClient(Struct, frozen=True, kw_only=True):
    client: ClientId
    message: ToClient


class TellEngine(Struct, frozen=True, kw_only=True):
    """`Run` and `OpenDoor` go over the engine's data socket, all else over its control socket."""

    engine: EngineId
    message: ToEngine


class StartEngine(Struct, frozen=True, kw_only=True):
    engine: EngineId
    rank: Rank  # below 0: an engine beside the seats
    node: str
    environment: str = ""


class KillEngine(Struct, frozen=True, kw_only=True):
    """End the process of an engine at once (SIGKILL)."""

    engine: EngineId
    reason: str


class SignalEngine(Struct, frozen=True, kw_only=True):
    """Send a signal to the process of an engine."""

    engine: EngineId
    signal: int


class DropClient(Struct, frozen=True, kw_only=True):
    """Close a client's link, if it is still there: its lease is over, or it said goodbye."""

    client: ClientId


class ShutDown(Struct, frozen=True, kw_only=True):
    """The cluster ends: no one is attached and no lease runs, or it was told to."""

    reason: str


class KeepBlocks(Struct, frozen=True, kw_only=True):
    """These blocks belong to objects that the scheduler keeps: they do not end with the process that wrote them."""

    blocks: list[BlockId]


class FreeBlocks(Struct, frozen=True, kw_only=True):
    """Nobody needs these blocks any more."""

    blocks: list[BlockId]


class RetainBlocks(Struct, frozen=True, kw_only=True):
    """After a restart of the hub: of the blocks that were kept before, only these are still needed."""

    blocks: list[BlockId]


Command: TypeAlias = (
    TellClient
    | TellEngine
    | StartEngine
    | KillEngine
    | SignalEngine
    | DropClient
    | KeepBlocks
    | FreeBlocks
    | RetainBlocks
    | ShutDown
)
