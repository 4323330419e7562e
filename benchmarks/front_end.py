"""A front end that runs cells in a kernel of its own and measures what comes back."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[1]
PATIENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of the kernel to all front ends, as it came."""

    kind: str
    content: dict[str, Any]
    cell: str  # that it belongs to
    size_bytes: int
    at_s: float


class FrontEnd:
    """Sends cells, interrupts and clicks, and reads what the kernel publishes."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager = manager
        self._client = client
        self._published = manager.connect_iopub()

    def start(self, source: str) -> str:
        """Send a cell: its number."""
        return str(self._client.execute(source))

    def run(self, source: str) -> None:
        """Run a cell to its end. Raises RuntimeError if it fails."""
        cell = self.start(source)
        for message in self.until(cell, is_idle):
            if message.kind == "error":
                raise RuntimeError("\n".join(message.content["traceback"]))

    def until(self, cell: str, is_last: Callable[[Message], bool]) -> Iterator[Message]:
        """The messages of a cell up to and with that which is the last."""
        while True:
            message = self._read()
            if message.cell == cell:
                yield message
                if is_last(message):
                    return

    def for_seconds(self, seconds: float) -> list[Message]:
        """All messages of this time."""
        end = time.perf_counter() + seconds
        found = []
        while (left_s := end - time.perf_counter()) > 0:
            if self._published.poll(int(left_s * 1000) + 1):
                found.append(self._read())
        return found

    def interrupt(self) -> None:
        """Press the stop button."""
        self._manager.interrupt_kernel()

    def click(self, button: str) -> None:
        """Press the button of this comm."""
        data = {"method": "custom", "content": {"event": "click"}}
        message = self._client.session.msg("comm_msg", {"comm_id": button, "data": data})
        self._client.shell_channel.send(message)

    def _read(self) -> Message:
        if not self._published.poll(int(PATIENCE_S * 1000)):
            raise RuntimeError(f"the kernel published nothing for {PATIENCE_S:g} s")
        frames = self._published.recv_multipart()
        _, parts = self._client.session.feed_identities(frames)
        message = self._client.session.deserialize(parts)
        return Message(
            kind=message["msg_type"],
            content=message["content"],
            cell=message["parent_header"].get("msg_id", ""),
            size_bytes=sum(len(frame) for frame in frames),
            at_s=time.perf_counter(),
        )


def is_idle(message: Message) -> bool:
    """Whether this says that the kernel is done with a cell."""
    return message.kind == "status" and bool(message.content["execution_state"] == "idle")


@contextmanager
def front_end() -> Iterator[FrontEnd]:
    """A kernel with directories of its own, in which the magics are loaded."""
    with tempfile.TemporaryDirectory(prefix="fibernb-benchmark-") as directory:
        manager = KernelManager(connection_file=f"{directory}/kernel.json")
        assert manager.kernel_spec is not None
        manager.kernel_spec.argv[0] = sys.executable
        own = {"FIBERNB_RUNTIME_DIR": f"{directory}/run", "IPYTHONDIR": f"{directory}/ipython"}
        manager.start_kernel(env={**os.environ, **own, "PYTHONPATH": str(ROOT)}, cwd=directory)
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=PATIENCE_S)
            started = FrontEnd(manager, client)
            started.run("%load_ext fibernb")
            yield started
            started.run("%fiber stop")
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=False)
            manager.cleanup_resources()
        while any(Path(directory, "run").iterdir()):  # a hub removes its directory last
            time.sleep(0.05)
