"""What both ends of a ZeroMQ transport have in common: endpoints, options, the words between them, monitors."""

from __future__ import annotations

import ipaddress
from typing import Final, TypeAlias

import zmq
from zmq.utils.monitor import parse_monitor_message

from fibernb.errors import ConfigError
from fibernb.transport import socket_file
from fibernb.wire.codec import MAX_MESSAGE_BYTES

Context: TypeAlias = "zmq.Context[zmq.Socket[bytes]]"
Socket: TypeAlias = "zmq.Socket[bytes]"

HEARTBEAT_S: Final = 2.0  # of tcp; a host that has been silent for three of them is taken for lost
SENT_MESSAGES: Final = 1000  # of a link, before `send` waits; a listener never waits
LINGER_S: Final = 1.0  # what has been sent has this long to leave when its socket closes


class Word:
    """What the ends tell each other, in two frames."""

    HELLO: Final = [b"", b"hello"]  # the first thing that a link says
    GOODBYE: Final = [b"", b"goodbye"]  # and the last thing that either end says
    PROBE: Final = [b"", b"probe"]  # means nothing; that it can be routed tells the listener that its peer lives


def endpoint_of(address: str) -> str:
    """ZeroMQ's name of an address. `ConfigError` when there can be no such place, or it would be open to others."""
    place = address.removeprefix("zmq+")
    scheme, _, rest = place.partition(":")
    if scheme == "ipc":
        socket_file.check_length(rest)
        return f"ipc://{rest}"
    host, colon, port = rest.rpartition(":")
    if not colon or not (port == "*" or port.isdecimal()):
        raise ConfigError(f"{address!r} names no port: it must be zmq+tcp:HOST:PORT")
    if not _is_this_host(host):
        raise ConfigError(f"{address!r}: tcp links are not encrypted yet, so they stay on this host: use 127.0.0.1")
    return f"tcp://{host}:{port}"


def make_socket(context: Context, kind: int, endpoint: str) -> Socket:
    """A socket with what both ends have in common.

    Received messages are never held back by a high-water mark: libzmq ends the whole process when a connection breaks
    while its input is stopped (zeromq/libzmq issue 4841), and what is held back is lost when the sender closes.
    """
    made = context.socket(kind)
    made.setsockopt(zmq.RCVHWM, 0)
    made.setsockopt(zmq.LINGER, int(LINGER_S * 1000))
    made.setsockopt(zmq.SNDHWM, SENT_MESSAGES if kind == zmq.DEALER else 0)
    made.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    if endpoint.startswith("tcp:"):
        made.setsockopt(zmq.HEARTBEAT_IVL, int(HEARTBEAT_S * 1000))
        made.setsockopt(zmq.HEARTBEAT_TIMEOUT, int(3 * HEARTBEAT_S * 1000))
        made.setsockopt(zmq.HEARTBEAT_TTL, int(3 * HEARTBEAT_S * 1000))
    return made


def monitored_events(monitor: Socket) -> int:
    """Everything that a monitor has to tell, as a set of flags."""
    events = 0
    while True:
        try:
            message = monitor.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return events
        events |= parse_monitor_message(message)["event"]


def _is_this_host(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
