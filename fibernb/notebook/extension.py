"""Loading and unloading: everything that FiberNB puts into an IPython shell, and takes out again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell

from fibernb.client import current
from fibernb.client.cells import CellResult
from fibernb.notebook import values
from fibernb.notebook.awaiting import Awaiting
from fibernb.notebook.cell_tasks import CellTasks
from fibernb.notebook.clusters import Clusters
from fibernb.notebook.completion import magic_matcher
from fibernb.notebook.data_verbs import DataVerbs
from fibernb.notebook.heartbeat import Heartbeat
from fibernb.notebook.looking import LookingVerbs
from fibernb.notebook.magics import NAMES, FiberMagics, without_body
from fibernb.notebook.parallel import Parallel
from fibernb.notebook.printing import Printer
from fibernb.notebook.supply import Supply
from fibernb.notebook.task_bars import bars_for
from fibernb.notebook.tracebacks import TracebackHook
from fibernb.notebook.verbs import Verbs

_loaded: Final[dict[InteractiveShell, Extension]] = {}


def load(shell: InteractiveShell) -> None:
    """Put everything in. Harmless when it is there already."""
    if shell not in _loaded:
        extension = _loaded[shell] = Extension(shell, Clusters())
        extension.load()


def unload(shell: InteractiveShell) -> None:
    """Take everything out. The cluster, if there is one, stays."""
    extension = _loaded.pop(shell, None)
    if extension is not None:
        extension.unload()


class Extension:
    """What FiberNB adds to one shell, whose clusters come from ``clusters``."""

    def __init__(self, shell: InteractiveShell, clusters: Clusters) -> None:
        self._shell = shell
        self._clusters = clusters
        self._printer = Printer()
        self._tasks = CellTasks(self._printer, functools.partial(bars_for, shell))
        self._heartbeat = Heartbeat()
        self._awaiting = Awaiting(shell)
        self._tracebacks = TracebackHook(shell)
        self._restarts = RestartHook(getattr(shell, "kernel", None), clusters.leave_running)

    def load(self) -> None:
        """Register magics, completion, formatters, events and hooks."""
        supply = Supply(self._shell)
        parallel = Parallel(self._shell, supply, self._clusters.current, self._printer)
        data = DataVerbs(self._shell, self._clusters, supply, parallel)
        verbs = Verbs(self._shell, self._clusters, LookingVerbs(self._clusters), data)
        self._shell.register_magics(FiberMagics(self._shell, verbs, parallel))
        self._shell.Completer.custom_matchers.append(magic_matcher)
        self._shell.input_transformers_cleanup.extend([without_body, self._awaiting])
        for listener in (self._tasks, self._heartbeat, self._awaiting):
            self._shell.events.register("pre_run_cell", listener.begin_cell)
            self._shell.events.register("post_run_cell", listener.end_cell)
        self._shell.events.register("pre_run_cell", self._clusters.begin_cell)
        current.on_use.append(self._tasks.follow)
        formatters = self._formatters()
        formatters["text/plain"].for_type(CellResult, _show_as_text)
        formatters["text/html"].for_type(CellResult, _show_as_html)
        self._tracebacks.install()
        self._restarts.install()

    def unload(self) -> None:
        """Take back what `load` did."""
        self._restarts.remove()
        self._tracebacks.remove()
        formatters = self._formatters()
        for kind in ("text/plain", "text/html"):
            formatters[kind].pop(CellResult, None)
        for listener in (self._tasks, self._heartbeat, self._awaiting):
            self._shell.events.unregister("pre_run_cell", listener.begin_cell)
            self._shell.events.unregister("post_run_cell", listener.end_cell)
        self._shell.events.unregister("pre_run_cell", self._clusters.begin_cell)
        current.on_use.remove(self._tasks.follow)
        self._heartbeat.end_cell()
        for transformer in (without_body, self._awaiting):
            self._shell.input_transformers_cleanup.remove(transformer)
        self._shell.Completer.custom_matchers.remove(magic_matcher)
        manager = self._shell.magics_manager
        for kind, names in NAMES.items():
            for name in names:
                manager.magics[kind].pop(name, None)
        manager.registry.pop(FiberMagics.__name__, None)

    def _formatters(self) -> dict[str, Any]:
        formatter = self._shell.display_formatter
        return {} if formatter is None else formatter.formatters


class RestartHook:
    """Tells, before the kernel ends, that it is restarted and not shut down."""

    def __init__(self, kernel: Any, on_restart: Callable[[], None]) -> None:
        self._kernel = kernel
        self._on_restart = on_restart
        self._original: Callable[[bool], Any] | None = None

    def install(self) -> None:
        """Listen to the kernel's shutdown."""
        if self._kernel is not None:
            self._original = self._kernel.do_shutdown
            self._kernel.do_shutdown = self._shut_down

    def remove(self) -> None:
        """Listen no more."""
        if self._original is not None and vars(self._kernel).get("do_shutdown") == self._shut_down:
            del self._kernel.do_shutdown

    def _shut_down(self, restart: bool) -> Any:
        if restart:
            self._on_restart()
        assert self._original is not None
        return self._original(restart)


def _show_as_text(result: CellResult, printer: Any, _cycle: bool) -> None:
    printer.text(values.as_text(result, result.ranks))


def _show_as_html(result: CellResult) -> str | None:
    return values.as_html(result, result.ranks)
