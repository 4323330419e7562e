"""A JupyterLab with directories of its own, and a browser to look at it."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Playwright

ROOT: Final = Path(__file__).parents[2]
START_S: Final = 60.0
BROWSER_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
)
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "apputils-extension/notification": {"fetchNews": "false"},
    "docmanager-extension/plugin": {"autosave": False},
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells out of sight are in the page nevertheless
}


class Lab:
    """A server that runs.

    Parameters
    ----------
    directory : holds all of its files.
    port : where it listens, on this machine only.
    """

    def __init__(self, directory: Path, port: int) -> None:
        self.notebooks = directory / "notebooks"
        self.address = f"http://127.0.0.1:{port}/lab"


@contextmanager
def running_lab(directory: Path) -> Iterator[Lab]:
    """A JupyterLab whose settings, workspaces, kernels and clusters have all their files in this directory."""
    port = _free_port()
    lab = Lab(directory, port)
    lab.notebooks.mkdir()
    _write_settings(directory / "settings")
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"),
        *(f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token="),
        *(f"--ServerApp.root_dir={lab.notebooks}", "--LabApp.news_url=None", "--LabApp.extension_manager=readonly"),
    ]
    log = directory / "lab.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=_environment(directory), stdout=output, stderr=output) as server,
    ):
        try:
            _wait_until_listening(port, server, log)
            yield lab
        finally:
            server.terminate()  # it ends its kernels in order, and they their clusters


def launch_browser(playwright: Playwright) -> Browser:
    """The Chromium of this machine. Raises FileNotFoundError when there is none: these tests are never left out."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise FileNotFoundError("no Chromium on this machine: install one (Debian: apt-get install chromium)")
    return playwright.chromium.launch(executable_path=found, args=list(BROWSER_FLAGS))


def _environment(directory: Path) -> dict[str, str]:
    places = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "jupyter-run",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
        "FIBERNB_RUNTIME_DIR": "run",
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FIBERNB_")}
    return {**inherited, "PYTHONPATH": str(ROOT), **{name: str(directory / place) for name, place in places.items()}}


def _write_settings(directory: Path) -> None:
    for name, settings in SETTINGS.items():
        path = directory / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))


def _free_port() -> int:
    """A port where nobody listens, and which no kernel gets meanwhile: the system gives out higher ones."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def _wait_until_listening(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    """Return when something accepts connections there. Raises TimeoutError, with the log's end, if nothing does."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")
