"""The verbs of ``%fiber`` that move values."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from fibernb.client.cells import CellResult
from fibernb.client.cluster import Cluster
from fibernb.model import Rank
from fibernb.notebook.arguments import split_names
from fibernb.notebook.clusters import Clusters
from fibernb.notebook.supply import Supply
from fibernb.notebook.usage import UsageError


class DataVerbs:
    """Push, pull, scatter, gather."""

    def __init__(self, shell: InteractiveShell, clusters: Clusters, supply: Supply) -> None:
        self._shell = shell
        self._clusters = clusters
        self._supply = supply
        self.verbs: dict[str, Callable[[argparse.Namespace], Any]] = {
            "push": self._push,
            "pull": self._pull,
            "scatter": self._scatter,
            "gather": self._gather,
        }

    def _push(self, options: argparse.Namespace) -> None:
        cluster = self._clusters.current()
        self._supply.push(cluster, _chosen(cluster, options.ranks), split_names(options.names))

    def _pull(self, options: argparse.Namespace) -> CellResult | None:
        """The values of one name are also what the line comes to; those of several are only bound."""
        names = split_names(options.names)
        if options.into is not None and len(names) > 1:
            raise UsageError("%fiber pull: --into is for one variable; leave it out, and each keeps its own name")
        cluster = self._clusters.existing()
        ranks = _chosen(cluster, options.ranks)
        pulled = cluster.pull(names, ranks)
        found = {name: CellResult((value[at] for value in pulled), ranks) for at, name in enumerate(names)}
        for name, values in found.items():
            self._shell.user_ns[options.into or name] = values
        return found[names[0]] if len(names) == 1 else None

    def _scatter(self, options: argparse.Namespace) -> None:
        cluster = self._clusters.current()
        ranks = _chosen(cluster, options.ranks)
        cluster.scatter(options.name, self._sequence(options.name), ranks)
        self._supply.note_sent(cluster, ranks, [options.name])

    def _gather(self, options: argparse.Namespace) -> None:
        cluster = self._clusters.existing()
        self._shell.user_ns[options.name] = cluster.gather(options.name, _chosen(cluster, options.ranks))

    def _sequence(self, name: str) -> Any:
        value = self._value(name)
        if isinstance(value, Mapping):
            raise UsageError(
                f"%fiber scatter: {name!r} is a {type(value).__name__}, which has no parts in order: "
                "scatter a list of its items, or push it to every rank"
            )
        try:
            iter(value)
        except TypeError as error:
            kind = type(value).__name__
            raise UsageError(f"%fiber scatter: {name!r} is of type {kind}, which has no parts to send out") from error
        return value

    def _value(self, name: str) -> Any:
        if name not in self._shell.user_ns:
            raise UsageError(f"this notebook has no variable {name!r}")
        return self._shell.user_ns[name]


def _chosen(cluster: Cluster, text: str | None) -> Sequence[Rank]:
    return range(cluster.size) if text is None else sorted(cluster.parse_ranks(text))
