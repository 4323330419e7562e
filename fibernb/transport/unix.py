"""Unix stream sockets: the fastest way between processes of one host.

The socket file has mode 0600. The directory that it stands in is the caller's, and is what keeps others away.
"""

from __future__ import annotations

import errno
import socket
import time
from typing import Final

from fibernb.errors import ConfigError, NotConnected
from fibernb.transport import socket_file
from fibernb.transport.descriptors import DescriptorSocket
from fibernb.transport.socket_file import SocketFile
from fibernb.transport.unix_link import UnixLink
from fibernb.transport.unix_listener import UnixListener
from fibernb.wire.codec import MAX_HELLO_BYTES, MAX_MESSAGE_BYTES

BACKLOG: Final = 4096  # peers that may knock while the listener is busy; the system may cap it
FIRST_PAUSE_S: Final = 0.001  # between two attempts to dial; then twice as long each time
LONGEST_PAUSE_S: Final = 0.05

# Nobody listens there, but somebody may in a moment.
_NOT_YET: Final = {
    errno.ENOENT: "there is no such socket",
    errno.ECONNREFUSED: "nobody listens there any more",
    errno.EAGAIN: "the listener does not take the connection",
}


def dial(path: str, timeout_s: float = 0.0, max_bytes: int = MAX_MESSAGE_BYTES) -> UnixLink:
    """A link to the listener at ``path``, trying for ``timeout_s`` seconds while nobody listens there.

    Raises `NotConnected` when there is none, `ConfigError` when there can be none.
    """
    socket_file.check_length(path)
    deadline = time.monotonic() + timeout_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return UnixLink(socket_file.connect(path), f"unix:{path}", max_bytes)
        except OSError as error:
            left_s = deadline - time.monotonic()
            if error.errno not in _NOT_YET or left_s <= 0:
                raise NotConnected(_explain(path, error, timeout_s)) from error
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def listen(path: str, hello_bytes: int = MAX_HELLO_BYTES) -> UnixListener:
    """A listener at ``path``, taking the place of a socket file whose listener is dead.

    Raises `ConfigError` when the path cannot be used, or somebody listens there.
    """
    listening, file = bind(path)
    return UnixListener(listening, path, file, hello_bytes)


def bind(path: str) -> tuple[socket.socket, SocketFile]:
    """A listening socket, and its file. As `listen`, for who hands the socket on to another process."""
    socket_file.check_length(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        socket_file.remove_stale(path)
        listening.bind(path)
        file = SocketFile(path)  # restricts access before anybody can connect
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot listen at {path}: {error.strerror}; choose another runtime_dir") from error
    return listening, file


def adopt(listening: socket.socket, path: str, hello_bytes: int = MAX_HELLO_BYTES) -> UnixListener:
    """A listener on a socket that another process has bound, and whose file that one keeps.

    Its peers may send descriptors along with their messages.
    """
    return UnixListener(listening, path, None, hello_bytes, DescriptorSocket)


def _explain(path: str, error: OSError, timeout_s: float) -> str:
    reason = _NOT_YET.get(error.errno or 0)
    if reason is None:
        return f"cannot connect to {path}: {error.strerror}"
    waited = f", after trying for {timeout_s:g} s" if timeout_s > 0 else ""
    return f"cannot connect to {path}: {reason}{waited}"
