"""Carries messages between processes: `listen` at an address, `dial` it.

The forms of an address are told in `fibernb.transport.protocol`. A transport's module is imported when an address first
names it, so that who speaks over Unix sockets never loads ZeroMQ, with its threads.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Final

from fibernb.errors import ConfigError
from fibernb.transport.protocol import Arrival, Link, Listener, Peer

__all__ = ["Arrival", "Link", "Listener", "Peer", "dial", "listen"]

_MODULES: Final = {
    "unix": "fibernb.transport.unix",
    "memory": "fibernb.transport.memory",
    "zmq+ipc": "fibernb.transport.zeromq",
    "zmq+tcp": "fibernb.transport.zeromq",
}


def dial(address: str, timeout_s: float = 0.0) -> Link:
    """A link to the listener at ``address``, trying for ``timeout_s`` seconds while nobody listens there.

    Raises `NotConnected` when there is none, `ConfigError` for an address that cannot be used.
    """
    module, place = _find(address)
    link: Link = module.dial(place, timeout_s)
    return link


def listen(address: str, hello_bytes: int | None = None) -> Listener:
    """A listener at ``address``, which takes ``hello_bytes`` (default: 1 MiB) from a new peer, until `Listener.limit`.

    Raises `ConfigError` for an address that cannot be used, or where somebody listens already.
    """
    module, place = _find(address)
    listener: Listener = module.listen(place) if hello_bytes is None else module.listen(place, hello_bytes)
    return listener


def _find(address: str) -> tuple[ModuleType, str]:
    scheme, colon, place = address.partition(":")
    if scheme not in _MODULES or not colon or not place:
        known = ", ".join(f"{scheme}:..." for scheme in _MODULES)
        raise ConfigError(f"{address!r} is no address of a transport: it must be one of {known}")
    return importlib.import_module(_MODULES[scheme]), place if scheme in ("unix", "memory") else address
