"""A cluster as users see it: its seats, what runs on them, and its end."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fibernb.client import current, job, scaling
from fibernb.client.calls import PinnedCalls
from fibernb.client.cells import CellHandle, CellResult
from fibernb.client.dialing import HubConnector
from fibernb.client.job import Job
from fibernb.client.parcels import Parcel
from fibernb.client.ranks import Ranks, RankView
from fibernb.client.selection import parse_ranks
from fibernb.client.session import Session
from fibernb.core.messages import Autoscale, Detach, Said, SeatsChanged, Status, Stop
from fibernb.engine import operations
from fibernb.errors import ConfigError
from fibernb.hub.connection import Connection
from fibernb.model import Rank


class Cluster:
    """A cluster that this process is attached to.

    Parameters
    ----------
    session : the link to its hub.
    connector : knows where it is.
    owned : whether this process started it, so that it ends with this process.
    """

    def __init__(self, session: Session, connector: HubConnector, owned: bool) -> None:
        self.session = session
        self.owned = owned
        self._connector = connector
        self._calls = PinnedCalls(session)
        self._cells = itertools.count(1)
        self._place: tuple[str, list[str], bool] | None = None
        self.ranks = Ranks(self._calls, self._current_size)

    @property
    def name(self) -> str:
        return self.session.name

    @property
    def connection(self) -> Connection:
        """Where the cluster is."""
        return self._connector.connection

    @property
    def directory(self) -> Path:
        """Where the cluster keeps its socket and logs."""
        return Path(self.connection.directory)

    @property
    def size(self) -> int:
        """How many seats are declared."""
        return self._current_size()

    def _current_size(self) -> int:
        seats = self.session.seats
        return self.session.status().seats if seats is None else seats.seats

    # ---- seats -------------------------------------------------------------------------------------------

    def scale(
        self,
        seats: int,
        wait: bool = True,
        minimum: int | None = None,
        timeout_s: float | None = None,
        on_change: Callable[[SeatsChanged], object] | None = None,
    ) -> None:
        """Declare how many seats there are; returns when ``minimum`` of them (None: all) are ready.

        Raises `ScaleTimeout` after ``timeout_s``, `ClusterError` for more seats than the cluster can have.
        """
        scaling.scale(self.session, seats, wait=wait, minimum=minimum, timeout_s=timeout_s, on_change=on_change)

    def autoscale(self, minimum: int = 0, maximum: int | None = None, idle_s: float = 60.0) -> None:
        """Follow the queue between two bounds; idle seats go after ``idle_s``. ``maximum`` None turns it off."""
        if minimum < 0 or idle_s < 0 or (maximum is not None and maximum < max(1, minimum)):
            raise ConfigError(
                f"cannot scale between {minimum} and {maximum} seats: give 0 or more, then at least as many"
            )
        scaling.check_limit(self.session, maximum or 0)
        self.session.tell(Autoscale(minimum=minimum, maximum=maximum, idle_s=idle_s))

    def status(self) -> Status:
        """The state of the cluster now."""
        return self.session.status()

    def restart(self, ranks: Sequence[Rank] | None = None) -> None:
        """Fresh engines for these ranks (None: all), which get the pushed names again."""
        self.view(ranks).restart()

    def interrupt(self, ranks: Sequence[Rank] | None = None) -> None:
        """Interrupt whatever runs on these ranks (None: all)."""
        self.view(ranks).interrupt()

    def parse_ranks(self, text: str) -> list[Rank]:
        """The ranks that a text such as ``0,3``, ``1:8``, ``::2`` or ``!0`` stands for."""
        return parse_ranks(text, self.size)

    def view(self, ranks: Sequence[Rank] | None = None) -> RankView:
        """The view of these ranks; None: of all."""
        return self.ranks[slice(None) if ranks is None else list(ranks)]

    # ---- work --------------------------------------------------------------------------------------------

    def run_cell(
        self,
        source: str,
        ranks: Sequence[Rank] | None = None,
        *,
        push: Mapping[str, bytes] | None = None,
        on_output: Callable[[Said], object] | None = None,
        filename: str = "<cell>",
        first_line: int = 1,
        pushed: Sequence[str] = (),
    ) -> CellHandle:
        """Start a cell on some ranks (None: all), after pushing pickled names to them.

        ``pushed``: of these, the values that the user pushed by name, even if they are called ``rank`` or ``size``.
        ``on_output`` is told what the ranks write, show and report, from whatever thread reads.
        """
        view = self.view(ranks)
        if push:
            view.push_parcels({name: Parcel(data) for name, data in push.items()})
        cell_id = f"{self.session.client:x}-{next(self._cells)}"
        return view.run_nowait(
            source, filename=filename, first_line=first_line, cell_id=cell_id, pushed=pushed, on_output=on_output
        )

    def push(self, names: Mapping[str, Any], ranks: Sequence[Rank] | None = None) -> None:
        """Set names on some ranks (None: all)."""
        self.view(ranks).push(names)

    def pull(self, names: str | Sequence[str], ranks: Sequence[Rank] | None = None) -> CellResult:
        """Values of names by rank."""
        return self.view(ranks).pull(names)

    def scatter(self, name: str, values: Any, ranks: Sequence[Rank] | None = None) -> None:
        """Cut a sequence into one part a rank."""
        self.view(ranks).scatter(name, values)

    def gather(self, name: str, ranks: Sequence[Rank] | None = None) -> Any:
        """The parts of a name, joined."""
        return self.view(ranks).gather(name)

    def adopt(self, directory: str | None = None, path: Sequence[str] | None = None, now: bool = True) -> None:
        """Let engines work in this process's directory with its ``sys.path``, where they exist; sent when changed.

        ``now`` False: only engines that start from now on.
        """
        place = (directory or os.getcwd(), list(sys.path if path is None else path), current.keeps_errors)
        if place == self._place:
            return
        arguments = [place]
        self._calls.remember(["place"], operations.adopt, arguments, None)
        if now and self.size:
            self._calls.start(self._calls.operation(operations.adopt), range(self.size), arguments)
        self._place = place

    def share(self, shared: Job) -> None:
        """Let this hold for all tasks and actors that this process, its cells and its tasks start from now on."""
        job.use(shared)
        arguments = [(shared,)]
        self._calls.remember(["job"], job.use, arguments, None)
        if self.size:
            self._calls.start(self._calls.operation(job.use), range(self.size), arguments)

    # ---- the end -----------------------------------------------------------------------------------------

    def detach(self) -> None:
        """Leave the cluster, which stays until it is stopped."""
        self.session.tell(Detach())
        self.owned = False
        self.session.close()

    def stop(self) -> None:
        """End the cluster now, whoever is attached."""
        self.session.tell(Stop())
        self.owned = False
        self.session.close()

    def close(self) -> None:
        """Leave the cluster; it ends if this process started it and nobody else is attached."""
        if self.session.over is None:
            self.session.close(stop=self.owned)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.session.over is not None:
            return f"<cluster {self.name}: ended>"
        seats = self.session.seats
        return (
            f"<cluster {self.name}: {seats.ready} of {seats.seats} seats ready>" if seats else f"<cluster {self.name}>"
        )
