"""Takes the picture of the README: a real notebook, run in JupyterLab in a headless Chromium.

    pip install playwright; apt-get install chromium
    .venv/bin/python docs/capture.py docs/images/quickstart.png

Wants JupyterLab and FiberNB in the Python that runs it. All settings, workspaces and files of the run stand in a
temporary directory.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Page, sync_playwright

BROWSER_FLAGS: Final = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
]
KERNEL_IS_IDLE: Final = (
    "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.connectionStatus === 'connected'"
    " && window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"
)
START_TIMEOUT_MS: Final = 60_000
CELL_TIMEOUT_MS: Final = 60_000

CELLS: Final = (
    "%load_ext fibernb\n%fiber scale 4",
    '%%parallel --into squares\nprint("ready")\nrank ** 2',
    """\
def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))""",
    """\
%%parallel --each start=range(0, 1_000_000, 125_000) --into counts
sum(is_prime(number) for number in range(start, start + 125_000))""",
    'f"{sum(counts):,} primes"',
    "%%parallel\n1 / (rank - 2)",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_notebook(path: Path) -> None:
    metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in CELLS], metadata=metadata), path)


def forgo_news(directory: Path) -> None:
    """Answer JupyterLab's question about news beforehand."""
    settings = directory / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')


def lab_environment(directory: Path) -> dict[str, str]:
    """Settings of nobody: every directory that Jupyter and IPython write to is a temporary one."""
    places = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    return {**os.environ, **{name: str(directory / place) for name, place in places.items()}}


@contextmanager
def running_lab(directory: Path) -> Iterator[str]:
    """The address of a JupyterLab that serves this directory."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--expose-app-in-browser"),
        *(f"--ServerApp.port={port}", "--IdentityProvider.token=", f"--ServerApp.root_dir={directory}"),
        *("--LabApp.news_url=None", "--LabApp.extension_manager=readonly"),
    ]
    with subprocess.Popen(command, env=lab_environment(directory), stderr=subprocess.DEVNULL) as server:
        try:
            wait_until_listening(port)
            yield f"http://127.0.0.1:{port}/lab"
        finally:
            server.terminate()  # it ends its kernels in order, and they their clusters


def wait_until_listening(port: int) -> None:
    """Return when something accepts connections there. Raises TimeoutError if nothing does in time."""
    deadline = time.monotonic() + START_TIMEOUT_MS / 1000
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError("JupyterLab did not start in time")


def execute(page: Page, command: str, **arguments: Any) -> None:
    """Start a command of JupyterLab; what it returns is not for this side of the wire."""
    script = "([command, arguments]) => { window.jupyterapp.commands.execute(command, arguments); }"
    page.evaluate(script, [command, arguments])


def run_notebook(page: Page, address: str, name: str) -> None:
    """Open the notebook, run it, and wait until every cell has run."""
    page.goto(f"{address}/tree/{name}", timeout=START_TIMEOUT_MS)
    page.wait_for_function("() => window.jupyterapp !== undefined", timeout=START_TIMEOUT_MS)
    page.evaluate("() => window.jupyterapp.restored.then(() => true)")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=START_TIMEOUT_MS)
    page.wait_for_function(KERNEL_IS_IDLE, timeout=START_TIMEOUT_MS)
    execute(page, "application:toggle-left-area")
    execute(page, "notebook:run-all-cells")
    last = f".jp-CodeCell:nth-of-type({len(CELLS)}) .jp-OutputArea-output"
    page.wait_for_selector(last, timeout=CELL_TIMEOUT_MS)
    page.wait_for_function(KERNEL_IS_IDLE, timeout=CELL_TIMEOUT_MS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        write_notebook(directory / "FiberNB.ipynb")
        forgo_news(directory)
        with running_lab(directory) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=options.browser, args=BROWSER_FLAGS)
            page = browser.new_page(viewport={"width": 960, "height": 830}, device_scale_factor=2)
            run_notebook(page, address, "FiberNB.ipynb")
            options.picture.parent.mkdir(parents=True, exist_ok=True)
            page.locator(".jp-NotebookPanel-notebook").screenshot(path=options.picture)
            browser.close()


if __name__ == "__main__":
    main()
