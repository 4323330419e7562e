"""A shell of its own for every test that needs one."""

import atexit
from collections.abc import Iterator
from typing import Any, cast

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from fibernb.notebook.clusters import Clusters
from fibernb.notebook.extension import Extension
from tests.notebook.fake_cluster import FakeClusters


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    made = InteractiveShell.instance(config=config)
    yield made
    atexit.unregister(made.atexit_operations)
    made.restore_sys_module_state()
    InteractiveShell.clear_instance()


@pytest.fixture
def clusters() -> FakeClusters:
    return FakeClusters()


@pytest.fixture
def extension(shell: InteractiveShell, clusters: FakeClusters, monkeypatch: pytest.MonkeyPatch) -> Iterator[Extension]:
    """The magics, on a cluster in this process."""
    monkeypatch.setenv("FIBERNB_PROGRESS", "0")
    loaded = Extension(shell, cast(Clusters, clusters))
    loaded.load()
    yield loaded
    loaded.unload()


class Notebook:
    """Runs cells and keeps what they print."""

    def __init__(self, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
        self.shell = shell
        self._capsys = capsys
        self.out = self.err = ""

    def run(self, source: str) -> Any:
        """The cell's value; what it printed is in ``out`` and ``err``."""
        result = self.shell.run_cell(source)
        self.out, self.err = self._capsys.readouterr()
        result.raise_error()
        return result.result


@pytest.fixture
def notebook(shell: InteractiveShell, extension: Extension, capsys: pytest.CaptureFixture[str]) -> Notebook:
    return Notebook(shell, capsys)
