"""Loading and unloading: everything that FiberNB puts into an IPython shell, and takes out again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, Protocol

from IPython.core.interactiveshell import InteractiveShell

from fibernb.client import current, interrupts
from fibernb.client.cells import CellHandle, CellResult
from fibernb.notebook import values
from fibernb.notebook.activity import Activity
from fibernb.notebook.asking import Question, without_body
from fibernb.notebook.awaiting import Awaiting
from fibernb.notebook.cell_tasks import CellTasks
from fibernb.notebook.clusters import Clusters
from fibernb.notebook.completion import matcher_for
from fibernb.notebook.data_verbs import DataVerbs
from fibernb.notebook.debugging import DebuggerHook, Debugging
from fibernb.notebook.each import EachHandle
from fibernb.notebook.heartbeat import Heartbeat
from fibernb.notebook.interruptible import interruptible
from fibernb.notebook.known import NotebookWords
from fibernb.notebook.looking import LookingVerbs
from fibernb.notebook.magics import NAMES, FiberMagics
from fibernb.notebook.parallel import Parallel
from fibernb.notebook.printing import Printer
from fibernb.notebook.stopping import StoppingVerbs
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


def greet(shell: InteractiveShell) -> None:
    """Tell the user who has loaded it what there is to know."""
    _loaded[shell].greet()


def unload(shell: InteractiveShell) -> None:
    """Take everything out. The cluster, if there is one, stays."""
    extension = _loaded.pop(shell, None)
    if extension is not None:
        extension.unload()


class CellListener(Protocol):
    """Is told of the cells of a notebook."""

    def begin_cell(self, *_: object) -> None:
        """A cell begins to run."""

    def end_cell(self, result: Any, /) -> None:
        """A cell has ended, with this `ExecutionResult`."""


class Extension:
    """What FiberNB adds to one shell, whose clusters come from ``clusters``."""

    def __init__(self, shell: InteractiveShell, clusters: Clusters) -> None:
        self._shell = shell
        self._clusters = clusters
        self._printer = Printer()
        self._tasks = CellTasks(self._printer, functools.partial(bars_for, shell))
        self._heartbeat = Heartbeat()
        self._awaiting = Awaiting(shell)
        self._activity = Activity()
        self._listeners: list[CellListener] = [self._tasks, self._heartbeat, self._awaiting]
        if hasattr(shell, "kernel"):
            self._listeners.append(self._activity)
        self._matcher = matcher_for(NotebookWords(shell, clusters))
        self._magics = MagicsBefore(shell)
        self._tracebacks = TracebackHook(shell)
        self._debugger = DebuggerHook(shell, Debugging(shell, clusters))
        self._restarts = RestartHook(getattr(shell, "kernel", None), clusters.leave_running)

    def load(self) -> None:
        """Register magics, completion, formatters, events and hooks."""
        supply = Supply(self._shell)
        parallel = Parallel(self._shell, supply, self._clusters.current, self._printer)
        data = DataVerbs(self._shell, self._clusters, supply)
        stopping = StoppingVerbs(self._shell, self._clusters, parallel)
        verbs = Verbs(self._shell, self._clusters, LookingVerbs(self._clusters), data, stopping)
        self._magics.remember()
        self._shell.register_magics(FiberMagics(self._shell, verbs, parallel))
        self._shell.Completer.custom_matchers.append(self._matcher)
        self._shell.input_transformers_cleanup.extend([without_body, self._awaiting])
        self._shell.input_transformer_manager.token_transformers.append(Question)
        for listener in self._listeners:
            self._shell.events.register("pre_run_cell", listener.begin_cell)
            self._shell.events.register("post_run_cell", listener.end_cell)
        self._shell.events.register("pre_run_cell", self._clusters.begin_cell)
        current.on_use.append(self._tasks.follow)
        current.keeps_errors = interrupts.in_notebook = True
        formatters = self._formatters()
        formatters["text/plain"].for_type(CellResult, _show_as_text)
        formatters["text/html"].for_type(CellResult, _show_as_html)
        for kind in (CellHandle, EachHandle):
            formatters["text/html"].for_type(kind, parallel.handle_html)
        self._tracebacks.install()
        self._debugger.install()
        self._restarts.install()

    def greet(self) -> None:
        """Tell who has loaded it what there is to know."""
        self._clusters.tell_of_earlier()

    def unload(self) -> None:
        """Take back what `load` did."""
        self._restarts.remove()
        self._debugger.remove()
        self._tracebacks.remove()
        formatters = self._formatters()
        for kind in ("text/plain", "text/html"):
            for shown in (CellResult, CellHandle, EachHandle):
                formatters[kind].pop(shown, None)
        for listener in self._listeners:
            self._shell.events.unregister("pre_run_cell", listener.begin_cell)
            self._shell.events.unregister("post_run_cell", listener.end_cell)
        self._shell.events.unregister("pre_run_cell", self._clusters.begin_cell)
        current.on_use.remove(self._tasks.follow)
        self._tasks.leave()
        current.keeps_errors = interrupts.in_notebook = False
        self._heartbeat.end_cell()
        self._activity.leave()
        for transformer in (without_body, self._awaiting):
            self._shell.input_transformers_cleanup.remove(transformer)
        self._shell.input_transformer_manager.token_transformers.remove(Question)
        self._shell.Completer.custom_matchers.remove(self._matcher)
        self._magics.restore()

    def _formatters(self) -> dict[str, Any]:
        formatter = self._shell.display_formatter
        return {} if formatter is None else formatter.formatters


class MagicsBefore:
    """What a shell's magics of our names were before ours."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._manager = shell.magics_manager
        self._before: dict[tuple[str, str], Any] = {}

    def remember(self) -> None:
        """Look, before ours come."""
        magics = self._manager.magics
        self._before = {(kind, name): magics[kind].get(name) for kind in NAMES for name in NAMES[kind]}

    def restore(self) -> None:
        """Put those back, or nothing where there were none."""
        for (kind, name), magic in self._before.items():
            if magic is None:
                self._manager.magics[kind].pop(name, None)
            else:
                self._manager.magics[kind][name] = magic
        self._manager.registry.pop(FiberMagics.__name__, None)


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
    with interruptible():
        text = values.as_text(result, result.ranks)
    printer.text(text)


def _show_as_html(result: CellResult) -> str | None:
    with interruptible():
        return values.as_html(result, result.ranks)
