"""Runs the cells and expressions of ``%%parallel`` and ``%parallel``."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import clear_output

from fibernb import config as configuration
from fibernb.client.cells import CellHandle
from fibernb.client.cluster import Cluster
from fibernb.client.watching import Watch
from fibernb.config import Config
from fibernb.core.messages import Said
from fibernb.errors import ConfigError, annotate
from fibernb.model import Rank
from fibernb.notebook import each as items_of_cell
from fibernb.notebook.awaiting import hears_clicks
from fibernb.notebook.body import Body, body_of
from fibernb.notebook.each import EachHandle
from fibernb.notebook.gathering import Fresh
from fibernb.notebook.interruptible import interruptible
from fibernb.notebook.live_page import live_html, static_html
from fibernb.notebook.own_cell import in_this_cell
from fibernb.notebook.printing import Printer
from fibernb.notebook.request import Each, Request
from fibernb.notebook.supply import Supply
from fibernb.notebook.undisturbed import undisturbed
from fibernb.notebook.view import LiveView, view_for
from fibernb.notebook.waiting import ShowOutput, wait_for, wait_in_loop
from fibernb.notebook.work import CellWork, EachWork, Heard, Work


class _Started(NamedTuple):
    work: Work
    view: LiveView
    show_output: ShowOutput | None  # while it runs
    is_quiet: bool  # its values are not to be shown


class Parallel:
    """The cells of one notebook.

    Parameters
    ----------
    shell : the notebook's.
    supply : brings the notebook's values to the engines.
    cluster : gives the cluster to use, started if there is none.
    printer : shows output.
    """

    def __init__(
        self, shell: InteractiveShell, supply: Supply, cluster: Callable[[], Cluster], printer: Printer
    ) -> None:
        self._shell = shell
        self._supply = supply
        self._cluster = cluster
        self._printer = printer
        self._background: list[Work] = []
        self._work_of: weakref.WeakKeyDictionary[CellHandle | EachHandle, Work] = weakref.WeakKeyDictionary()

    def run_cell(self, request: Request, source: str) -> Any:
        """Run a cell body as asked for: its values, or its handle when it runs in the background."""
        return self._run(request, self._body(request, source))

    async def await_cell(self, request: Request, source: str) -> Any:
        """As `run_cell`, while the event loop goes on."""
        started = self._start(request, self._body(request, source), awaited=True)
        if request.background is not None:
            return self._leave_running(request, started)
        with self._showing(request, started):
            await wait_in_loop(started.work, started.view, request.timeout_s, started.show_output)
        try:
            return self._value(request, started)
        except StopIteration as error:
            raise _in_place_of(error) from error.__cause__

    def run_expression(self, source: str) -> Any:
        """The value of an expression on every rank."""
        return self._run(Request(), body_of(self._shell, source, first_line=1))

    def running(self) -> list[Work]:
        """The cells that run in the background."""
        return [work for work in self._background if not work.wait(0)]

    def handle_html(self, handle: CellHandle | EachHandle) -> str | None:
        """How far the cell of a handle is, at this moment; None for a handle that no cell has."""
        work = self._work_of.get(handle)
        if work is None:
            return None
        return static_html(work.snapshot()) if handle.done() else live_html(work.snapshot())

    def _run(self, request: Request, body: Body) -> Any:
        started = self._start(request, body, awaited=False)
        if request.background is not None:
            return self._leave_running(request, started)
        with self._showing(request, started):
            wait_for(started.work, started.view, request.timeout_s, started.show_output)
        return self._value(request, started)

    def _body(self, request: Request, source: str) -> Body:
        return body_of(self._shell, source, first_line=2, keeps_value=request.into is not None)

    def _start(self, request: Request, body: Body, *, awaited: bool) -> _Started:
        config = configuration.load()
        with interruptible():
            cluster = self._cluster()
        cluster.adopt()
        start = self._start_on_ranks if request.each is None else functools.partial(self._start_items, request.each)
        work = start(cluster, request, body, config)
        background = request.background is not None
        on_cancel = work.cancel if background or hears_clicks(awaited=awaited) else None
        view = view_for(self._shell, wanted=config.progress, on_cancel=on_cancel, background=background)
        streams = config.progress and request.output != "none"
        show_output = functools.partial(self._show_fresh, request, work, view) if streams else None
        return _Started(work, view, show_output, body.is_quiet)

    @contextlib.contextmanager
    def _showing(self, request: Request, started: _Started) -> Iterator[None]:
        """In the end, however it comes about, the rest of the output is shown."""
        work, view = started.work, started.view
        try:
            yield
        finally:
            with undisturbed():
                self._show(work.heard.rest(request.output), work, view)

    def _value(self, request: Request, started: _Started) -> Any:
        with interruptible():
            outcome = started.work.outcome()
        values = self._bound(request.into, outcome)
        return None if started.is_quiet or all(value is None for value in values) else values

    def _show_fresh(self, request: Request, work: Work, view: LiveView) -> int:
        """Show what will stay as it is of what was written so far: how many messages that took."""
        with undisturbed():
            return self._show(work.heard.fresh(request.output), work, view)

    def _show(self, fresh: Fresh, work: Work, view: LiveView) -> int:
        if fresh.cleared:
            clear_output(wait=True)
            view.show_again()
        if fresh.blocks:
            view.make_room()
        return self._printer.show(fresh.blocks, work.labels) + 2 * fresh.cleared

    def _start_on_ranks(self, cluster: Cluster, request: Request, body: Body, config: Config) -> Work:
        ranks = _chosen(cluster, request.ranks)
        with interruptible():
            shipment = self._supply.send(cluster, ranks, body, request)
        start = functools.partial(_start_cell, cluster, ranks, body, request)
        return CellWork(start, shipment.check, Heard(ranks, config), cluster.session.wait)

    def _start_items(self, each: Each, cluster: Cluster, request: Request, body: Body, config: Config) -> Work:
        ranks = range(cluster.size)
        with interruptible():
            items = items_of_cell.items_of(self._shell, each)
            shipment = self._supply.send(cluster, ranks, body, request)
        heard = Heard(range(len(items)), config)
        refs = items_of_cell.submit(cluster, body, each, items, request.push, heard.take)
        handle = EachHandle(cluster.session, refs, keep_errors=each.keep_errors, ranks=ranks)
        return EachWork(handle, shipment.check, heard, cluster.session.wait, Watch(cluster.session).ask)

    def _leave_running(self, request: Request, started: _Started) -> Any:
        work = started.work
        self._background = [other for other in self._background if not other.handle.done()] + [work]
        self._work_of[work.handle] = work
        follow = in_this_cell(self._shell, functools.partial(self._follow, request, started))
        threading.Thread(target=follow, name="fibernb-background-cell", daemon=True).start()
        return self._bound(request.background or None, work.handle)

    def _follow(self, request: Request, started: _Started) -> None:
        """In a thread: show how a background cell gets on, and what it comes to."""
        try:
            with self._showing(request, started):
                wait_for(started.work, started.view, request.timeout_s, started.show_output)
            self._bound(request.into, started.work.outcome())
        except BaseException as error:  # noqa: BLE001  the handle raises it where the user asks for the result
            print(f"{type(error).__name__}: {error} (result() of its handle raises it)", file=sys.stderr, flush=True)

    def _bound(self, name: str | None, value: Any) -> Any:
        if name is not None:
            self._shell.user_ns[name] = value
        return value


def _in_place_of(error: StopIteration) -> RuntimeError:
    """What a coroutine raises where it would raise this, with all that is told of it."""
    other = RuntimeError("coroutine raised StopIteration")
    for note in getattr(error, "__notes__", ()):
        annotate(other, note)
    return other


def _start_cell(
    cluster: Cluster, ranks: list[Rank], body: Body, request: Request, listener: Callable[[Said], None]
) -> CellHandle:
    return cluster.run_cell(
        body.source,
        ranks,
        pushed=request.push,
        on_output=listener,
        filename=body.filename,
        first_line=body.first_line,
    )


def _chosen(cluster: Cluster, text: str | None) -> list[Rank]:
    size = cluster.size
    if size == 0:
        idle = " (autoscaling lets idle ones go, and tasks bring them back)" if cluster.status().maximum else ""
        raise ConfigError(f"the cluster has no engines{idle}: `%fiber scale 4` gives it some")
    ranks = list(range(size)) if text is None else sorted(cluster.parse_ranks(text))
    if not ranks:
        raise ConfigError(f"-w {text} chooses none of the ranks 0 to {size - 1}")
    return ranks
