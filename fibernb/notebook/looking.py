"""The verbs of ``%fiber`` that show what a cluster is and does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fibernb.client.cluster import Cluster
from fibernb.client.tracing import chrome_trace
from fibernb.core.messages import Status
from fibernb.errors import ConfigError, NotConnected
from fibernb.model import Rank
from fibernb.notebook import timeline, timeline_picture
from fibernb.notebook.clusters import Clusters
from fibernb.notebook.logs import LogVerb
from fibernb.notebook.memory import memory_of
from fibernb.notebook.pages import Page
from fibernb.notebook.rows import LIMIT, ActorRow, EngineRow, ObjectRow, SpanRow, WaitRow, ask, largest
from fibernb.notebook.status_html import as_html
from fibernb.notebook.status_page import MAX_OBJECTS, About, actor_table, as_text, engine_table
from fibernb.notebook.usage import UsageError
from fibernb.store.agent import StoreAgent


class LookingVerbs:
    """Status, ps, timeline, log."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self.verbs: dict[str, Callable[[argparse.Namespace], Any]] = {
            "status": self._status,
            "ps": self._ps,
            "timeline": self._timeline,
            "log": LogVerb(clusters).run,
        }

    def _status(self, _options: argparse.Namespace) -> Page:
        if not self._clusters.in_use():
            names = ", ".join(connection.name for connection in self._clusters.running())
            found = f"\nrunning: {names} (%fiber attach uses one of them)" if names else ""
            return Page(f"no cluster yet: the first %%parallel starts one, and so does %fiber scale N{found}")
        cluster = self._clusters.current()
        status = cluster.status()
        about = about_of(cluster, status)
        return Page(as_text(status, about), as_html(status, about))

    def _ps(self, options: argparse.Namespace) -> Page:
        cluster = self._clusters.existing()
        ranks = set(chosen(cluster, options.ranks))
        status = cluster.status()
        seats = [seat for seat in status.engines if seat.rank in ranks]
        if options.ranks is not None:
            return Page(engine_table(seats))
        actors = _actors(cluster, status)
        engines = engine_table(seats, _beside(cluster, status))
        return Page(f"{engines}\n\n{actor_table(actors)}" if actors else engines)

    def _timeline(self, options: argparse.Namespace) -> Page | None:
        session = self._clusters.existing().session
        if options.file is not None and options.last is not None:
            raise UsageError("%fiber timeline: --last is for the picture; a trace has everything")
        if options.file is not None:
            rows, waits = (session.state(kind, LIMIT, {})[0] for kind in ("spans", "waits"))
            _write_trace(Path(options.file), chrome_trace(rows, waits))
            return None
        spans, total = ask(session, "spans", SpanRow)
        past = timeline.Past(spans, ask(session, "waits", WaitRow)[0], range(self._clusters.existing().size), total)
        if options.last is not None:
            past = timeline.latest(past, options.last)
        return Page(timeline.as_text(past), timeline_picture.as_html(past))


def chosen(cluster: Cluster, text: str | None) -> list[Rank]:
    """The ranks that a verb is about; None: all."""
    return list(range(cluster.size)) if text is None else sorted(cluster.parse_ranks(text))


def about_of(cluster: Cluster, status: Status) -> About:
    """What the status page tells beside the status itself; the hub is asked only for what there is."""
    objects = ask(cluster.session, "objects", ObjectRow)[0] if status.objects else []
    beside = _beside(cluster, status)
    return About(
        name=cluster.name,
        backend="local",
        memory_bytes=memory_of(status, [row.pid for row in beside if row.pid]),
        actors=_actors(cluster, status),
        beside=beside,
        objects=largest(objects, MAX_OBJECTS),
        **_store_of(cluster, objects),
    )


def _actors(cluster: Cluster, status: Status) -> list[ActorRow]:
    if not (status.actors or status.extra):
        return []
    return [row for row in ask(cluster.session, "actors", ActorRow)[0] if row.state != "DEAD"]


def _beside(cluster: Cluster, status: Status) -> list[EngineRow]:
    if not status.extra:
        return []
    rows, _ = ask(cluster.session, "engines", EngineRow)
    return sorted((row for row in rows if row.rank < 0), key=lambda row: -row.rank)


def _store_of(cluster: Cluster, objects: list[ObjectRow]) -> dict[str, Any]:
    """It is started by being asked, so only when there is something in it."""
    store = cluster.session.store
    if not isinstance(store, StoreAgent) or not any(row.blocks for row in objects):
        return {}
    try:
        return {"store": store.describe()}
    except NotConnected as error:
        return {"store_trouble": str(error)}


def _write_trace(path: Path, trace: list[dict[str, Any]]) -> None:
    try:
        path = path.expanduser()
        path.write_text(json.dumps(trace))
    except (OSError, RuntimeError, ValueError) as error:  # what the system, or a path that cannot be, raises
        raise ConfigError(f"%fiber timeline cannot write {path}: {getattr(error, 'strerror', error)}") from error
    events = sum(event.get("cat") == "task" for event in trace)
    print(f"{events:,} spans are in {path}: open it at https://ui.perfetto.dev or chrome://tracing")
