"""Connections between proxies and the server of their manager: the library's, with our way to pickle."""

from __future__ import annotations

import multiprocessing.managers as library
from collections.abc import Callable
from multiprocessing import connection
from typing import Any, Final

from fibernb.multiprocessing.connection import Connection

internal: Final[Any] = library  # what its stub does not tell of it

PICKLE: Final = "pickle"  # the serializer that managers use if nothing else is asked for


def adopt(given: Any) -> Any:
    """The same connection as one of ours; those of other kinds (XML-RPC) stay what they are."""
    if type(given) is not connection.Connection:
        return given
    plain: Any = given
    adopted = Connection(plain.fileno())
    plain._handle = None  # the descriptor has a new owner
    return adopted


def dial(address: Any, family: str | None = None, authkey: bytes | None = None) -> Any:
    """As `multiprocessing.connection.Client`: a connection to the server, after both sides have shown the key."""
    return adopt(connection.Client(address, family, authkey))


def client_of(serializer: str) -> Callable[..., Any]:
    """What dials a server that uses this serializer. Raises `KeyError` when there is no such one."""
    found: Callable[..., Any] = internal.listener_client[serializer][1]
    return dial if serializer == PICKLE else found
