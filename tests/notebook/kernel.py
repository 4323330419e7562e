"""A real kernel for tests, driven as a front end does."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

PATIENCE_S = 30.0


@dataclass
class Reply:
    """What one cell brought forth."""

    msg_id: str
    status: str = ""
    error: str = ""  # name of the exception
    text: str = ""  # of the error
    messages: list[dict[str, Any]] = field(default_factory=list)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The contents of the messages of this kind."""
        return [message["content"] for message in self.messages if message["msg_type"] == kind]

    def stream(self, name: str = "stdout") -> str:
        return "".join(content["text"] for content in self.of("stream") if content["name"] == name)

    @property
    def result(self) -> str:
        """The text of the cell's value."""
        return "".join(content["data"]["text/plain"] for content in self.of("execute_result"))


class Kernel:
    """Runs cells in a kernel process."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client
        self._replies: dict[str, Reply] = {}

    def start(self, source: str) -> Reply:
        """Send a cell and do not wait."""
        reply = Reply(self.client.execute(source))
        self._replies[reply.msg_id] = reply
        return reply

    def finish(self, reply: Reply) -> Reply:
        """Wait for the end of a cell that was sent."""
        self._collect(reply, until_idle=True)
        shell = self.client.get_shell_msg(timeout=PATIENCE_S)
        while shell["parent_header"].get("msg_id") != reply.msg_id:
            shell = self.client.get_shell_msg(timeout=PATIENCE_S)
        content = shell["content"]
        reply.status, reply.error, reply.text = content["status"], content.get("ename", ""), content.get("evalue", "")
        return reply

    def run(self, source: str) -> Reply:
        """Run a cell to its end, which must be a good one."""
        reply = self.finish(self.start(source))
        assert reply.status == "ok", reply.messages
        return reply

    def fail(self, source: str) -> Reply:
        """Run a cell that must end with an error."""
        reply = self.finish(self.start(source))
        assert reply.status == "error", reply.messages
        return reply

    def messages_for(self, reply: Reply, seconds: float) -> None:
        """Add what comes for a cell, which may have ended, within this time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._collect(reply, until_idle=False, timeout=left)

    def click(self, button: str) -> None:
        """Press the button of this comm, as a front end does."""
        data = {"method": "custom", "content": {"event": "click"}}
        message = self.client.session.msg("comm_msg", {"comm_id": button, "data": data})
        self.client.shell_channel.send(message)

    def restart(self) -> None:
        """Restart the kernel in order, as a front end does."""
        self.manager.restart_kernel(now=False)
        self.client.wait_for_ready(timeout=PATIENCE_S)

    def _collect(self, reply: Reply, *, until_idle: bool, timeout: float = PATIENCE_S) -> None:
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=timeout)
            except Exception:
                if until_idle:
                    raise
                return
            parent = message["parent_header"].get("msg_id")
            if parent in self._replies:
                self._replies[parent].messages.append(message)
            is_idle = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
            if is_idle and parent == reply.msg_id:
                return


@contextmanager
def running_kernel(directory: Path, **variables: str) -> Iterator[Kernel]:
    """A kernel with directories of its own, in which the magics are loaded."""
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
        "FIBERNB_RUNTIME_DIR": str(directory / "run"),
        "IPYTHONDIR": str(directory / "ipython"),
        "JPY_SESSION_NAME": str(directory / "n.ipynb"),
        **variables,
    }
    manager = KernelManager(connection_file=str(directory / "kernel.json"))
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel(env=environment, cwd=str(directory))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        kernel = Kernel(manager, client)
        kernel.run("%load_ext fibernb")
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=False)
        manager.cleanup_resources()


def cluster_directories(directory: Path) -> list[Path]:
    """Runtime directories of clusters that a kernel has left behind."""
    run = directory / "run"
    return [path for path in run.iterdir() if path.is_dir()] if run.is_dir() else []
