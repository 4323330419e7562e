"""A notebook that is open in JupyterLab, as a user has it before them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, Page, expect

from tests.ui.lab import Lab

PATIENCE_MS: Final = 60_000
PANEL: Final = ".jp-NotebookPanel:not(.lm-mod-hidden)"

_EXECUTE: Final = """
async ([command, options]) => { await window.jupyterapp.commands.execute(command, options); }
"""
_STATUS: Final = """
() => {
  const kernel = window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
  return kernel && kernel.connectionStatus === 'connected' ? kernel.status : '';
}
"""
_DONE_WITH: Final = """
([index, before]) => {
  const cell = window.jupyterapp.shell.currentWidget.content.widgets[index];
  const count = cell.model.executionCount;
  return count !== null && count !== before && cell.model.executionState !== 'running';
}
"""
_COUNT_OF: Final = "index => window.jupyterapp.shell.currentWidget.content.widgets[index].model.executionCount"
_LOADED: Final = "() => window.jupyterapp !== undefined"
_SHOWN: Final = """
name => {
  const panel = window.jupyterapp.shell.currentWidget;
  return panel?.context?.path === name && panel.context.isReady;
}
"""


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """Write a notebook of these code cells."""
    metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in cells], metadata=metadata), path)


def load_lab(page: Page, lab: Lab) -> None:
    """Load JupyterLab into the page, with nothing open in it and all its width for the notebook."""
    page.goto(f"{lab.address}?reset", timeout=PATIENCE_MS)
    page.wait_for_function(_LOADED, timeout=PATIENCE_MS)
    page.evaluate("() => window.jupyterapp.restored.then(() => true)")
    page.evaluate("() => { window.jupyterapp.commands.execute('application:toggle-left-area'); }")


class Notebook:
    """A notebook in the front of JupyterLab, its kernel ready."""

    def __init__(self, page: Page, lab: Lab, name: str, cells: Sequence[str]) -> None:
        self.page = page
        self.path = lab.notebooks / name
        self._is_open = True
        if cells:
            write_notebook(self.path, cells)
        self.command("docmanager:open", path=name, factory="Notebook")
        page.wait_for_function(_SHOWN, arg=name, timeout=PATIENCE_MS)
        self._wait_until_idle()

    def command(self, name: str, **options: Any) -> None:
        """Run a command of JupyterLab, as its menus do, to its end."""
        self.page.evaluate(_EXECUTE, [name, options])

    def cell(self, index: int) -> Locator:
        """A cell."""
        return self.page.locator(f"{PANEL} .jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Locator:
        """All that a cell has brought forth."""
        return self.cell(index).locator(".jp-OutputArea")

    def live_view(self, index: int) -> Locator:
        """The live view of a cell that runs."""
        return self.cell(index).locator(".jupyter-widgets").first

    def cancel_button(self, index: int) -> Locator:
        return self.cell(index).get_by_role("button", name="Cancel")

    def start(self, index: int) -> int | None:
        """Run a cell as a user does, by the keyboard, and do not wait: its number before."""
        before: int | None = self.page.evaluate(_COUNT_OF, index)
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        return before

    def finish(self, index: int, before: int | None = None) -> None:
        """Wait until a cell that was started has ended."""
        self.page.wait_for_function(_DONE_WITH, arg=[index, before], timeout=PATIENCE_MS)
        self._wait_until_idle()

    def run(self, *indices: int) -> None:
        """Run these cells, one after the other, to their ends."""
        for index in indices:
            self.finish(index, self.start(index))

    def run_all(self) -> None:
        """Run the whole notebook."""
        self.command("notebook:run-all-cells")
        self._wait_until_idle()

    def save(self) -> None:
        self.command("docmanager:save")

    def restart_kernel(self) -> None:
        """Restart the kernel by the menu, and say yes."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('kernelmenu:restart'); }")
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.page.locator(".jp-Dialog").wait_for(state="detached")
        self._wait_until_idle()

    def close(self) -> None:
        """End the kernel, and with it its cluster, and shut the notebook, if that was not done before."""
        if not self._is_open:
            return
        self._is_open = False
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:close-and-shutdown'); }")
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        expect(self.page.locator(PANEL)).to_have_count(0)

    def _wait_until_idle(self) -> None:
        self.page.wait_for_function(f"() => ({_STATUS})() === 'idle'", timeout=PATIENCE_MS)
