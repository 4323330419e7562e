"""ZeroMQ over ipc or tcp: a ROUTER that listens, DEALERs that dial.

ZeroMQ connects again by itself and tells nobody, while a link must end when its connection does. So a DEALER waits for
ever before it reconnects, and both ends listen to their socket's monitor. The ROUTER's monitor does not say whom it has
lost: the listener then sends everybody a probe, and those that it cannot route to are gone.

A message is one frame. Two frames, the first of them empty, are a word between the two ends, see
`fibernb.transport.zeromq_socket.Word`.
"""

from __future__ import annotations

import time
from typing import Final

import zmq

from fibernb.errors import ConfigError, NotConnected
from fibernb.transport import socket_file
from fibernb.transport.socket_file import SocketFile
from fibernb.transport.zeromq_link import ZeroMQLink
from fibernb.transport.zeromq_listener import ZeroMQListener
from fibernb.transport.zeromq_socket import Context, endpoint_of, make_socket, monitored_events
from fibernb.wire.codec import MAX_HELLO_BYTES

PAUSE_S: Final = 0.02  # between two attempts to dial
NEVER_MS: Final = 2**30  # ZeroMQ's own "never" (-1) throws away what has arrived when the connection breaks
HANDSHAKE_S: Final = 2.0  # how long a connection may take at the least, once somebody listens

_FAILED: Final = (
    zmq.EVENT_CLOSED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


def dial(address: str, timeout_s: float = 0.0) -> ZeroMQLink:
    """A link to the listener at ``address``, trying for ``timeout_s`` seconds while nobody listens there.

    Raises `NotConnected` when there is none, `ConfigError` when there can be none.
    """
    endpoint = endpoint_of(address)
    deadline = time.monotonic() + timeout_s
    context: Context = zmq.Context()
    try:
        while True:
            link = _attempt(context, endpoint, address, max(deadline - time.monotonic(), HANDSHAKE_S))
            if link is not None:
                return link
            if time.monotonic() >= deadline:
                raise NotConnected(f"cannot connect to {address}: nobody answers there (tried for {timeout_s:g} s)")
            time.sleep(PAUSE_S)
    except BaseException:
        context.destroy(linger=0)
        raise


def listen(address: str, hello_bytes: int = MAX_HELLO_BYTES) -> ZeroMQListener:
    """A listener at ``address``; a tcp port of ``*`` is any free one, see `ZeroMQListener.address`.

    Raises `ConfigError` when the address cannot be used, or somebody listens there.
    """
    endpoint = endpoint_of(address)
    path = endpoint.removeprefix("ipc://") if endpoint.startswith("ipc:") else None
    context: Context = zmq.Context()
    try:
        router = make_socket(context, zmq.ROUTER, endpoint)
        if path is not None:
            socket_file.remove_stale(path)
        router.bind(endpoint)
        file = None if path is None else SocketFile(path)
        return ZeroMQListener(context, router, file, hello_bytes)
    except (OSError, zmq.ZMQError) as error:
        context.destroy(linger=0)
        raise ConfigError(f"cannot listen at {address}: {error.strerror}; choose another address") from error


def _attempt(context: Context, endpoint: str, address: str, patience_s: float) -> ZeroMQLink | None:
    dealer = make_socket(context, zmq.DEALER, endpoint)
    dealer.setsockopt(zmq.RECONNECT_IVL, NEVER_MS)
    monitor = dealer.get_monitor_socket()
    dealer.connect(endpoint)
    deadline = time.monotonic() + patience_s
    while (left_s := deadline - time.monotonic()) > 0 and monitor.poll(int(left_s * 1000) + 1):
        events = monitored_events(monitor)
        if events & zmq.EVENT_HANDSHAKE_SUCCEEDED:
            return ZeroMQLink(context, dealer, monitor, address)
        if events & _FAILED:
            break
    dealer.disable_monitor()
    monitor.close(linger=0)
    dealer.close(linger=0)
    return None
