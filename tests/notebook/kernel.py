"""A real kernel for tests, driven as a front end does."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
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
    def is_idle(self) -> bool:
        """Whether the kernel has said already that it is done with it."""
        return any(content["execution_state"] == "idle" for content in self.of("status"))

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

    def start(self, source: str, *, can_ask: bool = False) -> Reply:
        """Send a cell and do not wait. ``can_ask``: it may ask for input, which the caller then types."""
        reply = Reply(self.client.execute(source, allow_stdin=can_ask))
        self._replies[reply.msg_id] = reply
        return reply

    def finish(self, reply: Reply) -> Reply:
        """Wait for the end of a cell that was sent."""
        if not reply.is_idle:
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
        assert reply.status == "ok", "\n".join(line for shown in reply.of("error") for line in shown["traceback"])
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

    def wait_until(self, reply: Reply, condition: Callable[[Reply], object]) -> None:
        """Take messages until those for this cell are as wanted."""
        end = time.monotonic() + PATIENCE_S
        while not condition(reply):
            assert time.monotonic() < end, reply.messages
            self.messages_for(reply, 0.02)

    def wait_for_view(self, reply: Reply) -> None:
        """Take messages until the live view of this cell is there."""
        self.wait_until(reply, lambda so_far: so_far.of("display_data"))

    def button(self, reply: Reply) -> str:
        """The comm of the button that the view of a running cell has; empty when it has been shown without one."""
        self.wait_for_view(reply)
        states = [(content["comm_id"], content["data"].get("state", {})) for content in reply.of("comm_open")]
        return next((comm for comm, state in states if state.get("_model_name") == "ButtonModel"), "")

    def click(self, button: str, subshell: str | None = None) -> None:
        """Press the button of this comm, as a front end does."""
        data = {"method": "custom", "content": {"event": "click"}}
        message = self.client.session.msg("comm_msg", {"comm_id": button, "data": data})
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def subshell(self) -> str | None:
        """A shell beside the main one, as JupyterLab asks for one for its comms; None where kernels have none."""
        features = self.client.kernel_info(reply=True, timeout=PATIENCE_S)["content"].get("supported_features", [])
        if "kernel subshells" not in features:
            return None
        self.client.control_channel.send(self.client.session.msg("create_subshell_request"))
        return str(self.client.get_control_msg(timeout=PATIENCE_S)["content"]["subshell_id"])

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
def running_kernel(directory: Path, python: str = sys.executable, **variables: str) -> Iterator[Kernel]:
    """A kernel of this Python with directories of its own, in which the magics are loaded."""
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
        "FIBERNB_RUNTIME_DIR": str(directory / "run"),
        "IPYTHONDIR": str(directory / "ipython"),
        "JPY_SESSION_NAME": str(directory / "n.ipynb"),
        **variables,
    }
    connection_file = str(directory / "kernel.json")
    manager = KernelManager(connection_file=connection_file, transport="ipc")  # which needs no free port
    manager.shutdown_wait_time = PATIENCE_S  # so that it ends its cluster, however slow that is, rather than be killed
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv[0] = python
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


def output_of(reply: Reply) -> list[dict[str, Any]]:
    """What a front end shows of it, without the requests' own beginnings and ends."""
    kinds = ("stream", "display_data", "update_display_data", "comm_msg", "clear_output", "execute_result")
    return [message for message in reply.messages if message["msg_type"] in kinds]


def took_s(reply: Reply) -> float:
    dates = [message["header"]["date"] for message in reply.messages]
    return float((max(dates) - min(dates)).total_seconds())


def check_rate(reply: Reply, at_the_end: int = 8) -> None:
    """Ten in a second, and some that are sent all at once when the view opens and when the cell ends."""
    assert len(output_of(reply)) <= 10 * took_s(reply) + at_the_end


def cluster_directories(directory: Path) -> list[Path]:
    """Runtime directories of clusters that a kernel has left behind."""
    run = directory / "run"
    return [path for path in run.iterdir() if path.is_dir()] if run.is_dir() else []


def check_nothing_is_left(directory: Path) -> None:
    """Wait until no cluster is left behind."""
    end = time.monotonic() + PATIENCE_S
    while cluster_directories(directory):
        assert time.monotonic() < end, cluster_directories(directory)
        time.sleep(0.05)
