from __future__ import annotations

import subprocess
import sys

import pytest

from fibernb.errors import ConfigError
from fibernb.transport import dial, listen


@pytest.mark.parametrize("address", ["", "unix", "unix:", "tcp:127.0.0.1:1", "zmq:ipc:x", "/tmp/x", "UNIX:/tmp/x"])
def test_what_is_no_address(address: str) -> None:
    for use in (dial, listen):
        with pytest.raises(ConfigError, match="no address of a transport"):
            use(address)


@pytest.mark.parametrize("scheme", ["unix", "zmq+ipc"])
def test_a_path_that_is_too_long(scheme: str) -> None:
    for use in (dial, listen):
        with pytest.raises(ConfigError, match=r"has 211 bytes.*FIBERNB_RUNTIME_DIR"):
            use(f"{scheme}:/tmp/{'é' * 103}")


@pytest.mark.parametrize("scheme", ["unix", "zmq+ipc"])
def test_a_directory_that_does_not_exist(scheme: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen at .*/nowhere/s"):
        listen(f"{scheme}:/nowhere/s")


@pytest.mark.parametrize("place", ["127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:-1"])
def test_tcp_without_a_port(place: str) -> None:
    with pytest.raises(ConfigError, match="names no port"):
        listen(f"zmq+tcp:{place}")


@pytest.mark.parametrize("host", ["0.0.0.0", "*", "192.0.2.1", "example.org", "[::]"])
def test_tcp_that_others_could_reach(host: str) -> None:
    for use in (dial, listen):
        with pytest.raises(ConfigError, match="not encrypted yet"):
            use(f"zmq+tcp:{host}:5555")


def test_unix_sockets_do_without_zeromq() -> None:
    program = (
        "import sys\nfrom fibernb.transport import dial\nfrom fibernb.errors import NotConnected\n"
        "try:\n    dial('unix:/nowhere/s')\nexcept NotConnected:\n    sys.exit('zmq' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
