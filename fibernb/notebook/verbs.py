"""What the verbs of ``%fiber`` do to a cluster as a whole."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Callable
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell

from fibernb import config as configuration
from fibernb.client.cluster import Cluster
from fibernb.notebook.arguments import HelpAsked, split_words
from fibernb.notebook.clusters import Clusters, settle
from fibernb.notebook.commands import FIBER_HELP, verb_named
from fibernb.notebook.data_verbs import DataVerbs
from fibernb.notebook.debugging import Debugging
from fibernb.notebook.looking import LookingVerbs, chosen
from fibernb.notebook.pages import Page
from fibernb.notebook.seats_view import SeatsView, readiness
from fibernb.notebook.settings import SettingsVerb, typed_settings
from fibernb.notebook.status_page import table
from fibernb.notebook.stopping import StoppingVerbs
from fibernb.notebook.usage import UsageError

_SEATS: Final = re.compile(r"([+-]?)(\d+)")
_BOUNDS: Final = re.compile(r"(\d+):(\d+)")

Verb = Callable[[argparse.Namespace], Any]


class Verbs:
    """Carries out ``%fiber`` lines for one notebook."""

    def __init__(
        self,
        shell: InteractiveShell,
        clusters: Clusters,
        looking: LookingVerbs,
        data: DataVerbs,
        stopping: StoppingVerbs,
    ) -> None:
        self._shell = shell
        self._clusters = clusters
        self._verbs: dict[str, Verb] = {
            "scale": self._scale,
            "autoscale": self._autoscale,
            "start": self._start,
            "stop": self._stop,
            "restart": self._restart,
            "list": self._list,
            "attach": self._attach,
            "detach": self._detach,
            "config": SettingsVerb(clusters).run,
            **looking.verbs,
            **data.verbs,
            **stopping.verbs,
            **Debugging(shell, clusters).verbs,
        }

    def run(self, line: str) -> Any:
        """Carry out one line: what its verb gives to the notebook. Raises `HelpAsked` for ``--help``."""
        verb, *words = split_words(line, "%fiber") or ["status"]
        if verb in ("--help", "-h", "help"):
            raise HelpAsked(verb_named(words[0]).help_text() if words else FIBER_HELP)
        command = verb_named(verb)
        return self._verbs[verb](command.parse(words))

    # ---- seats -------------------------------------------------------------------------------------------

    def _scale(self, options: argparse.Namespace) -> None:
        found = _SEATS.fullmatch(options.seats)
        if found is None:
            raise UsageError(f"%fiber scale wants a number of engines, such as 8, +4 or -4, not {options.seats!r}")
        sign, amount = found[1], int(found[2])
        if sign or self._clusters.in_use():
            cluster = self._clusters.current()
            seats = _target(cluster.size, sign, amount)
            self._fill(seats, lambda: cluster, minimum=options.min, timeout_s=options.timeout)
        else:
            start = functools.partial(self._clusters.start, amount, None, None, {})
            self._fill(amount, start, minimum=options.min, timeout_s=options.timeout)

    def _fill(
        self,
        seats: int,
        cluster_of: Callable[[], Cluster],
        *,
        minimum: int | None = None,
        timeout_s: float | None = None,
        named: bool = False,
    ) -> None:
        """Wait until the seats of a cluster, which may have to start first, are ready; show how that gets on."""
        with SeatsView(self._shell, seats, wanted=configuration.load().progress) as view:
            cluster = cluster_of()
            cluster.scale(seats, minimum=minimum, timeout_s=timeout_s, on_change=view.show)
        settle(cluster)
        title = f"cluster {cluster.name}: " if named else ""
        print(title + readiness(cluster.status(), seats))

    def _autoscale(self, options: argparse.Namespace) -> None:
        cluster = self._clusters.current()
        if options.bounds == "off":
            cluster.autoscale(maximum=None)
            print("autoscaling is off")
            return
        found = _BOUNDS.fullmatch(options.bounds)
        if found is None or int(found[1]) > int(found[2]) or not int(found[2]):
            raise UsageError(f"%fiber autoscale wants MIN:MAX, such as 0:16, or off, not {options.bounds!r}")
        cluster.autoscale(int(found[1]), int(found[2]), options.idle)
        print(f"autoscaling between {found[1]} and {found[2]} engines")

    def _restart(self, options: argparse.Namespace) -> None:
        cluster = self._clusters.existing()
        ranks = chosen(cluster, options.ranks)
        cluster.restart(ranks)
        self._fill(cluster.size, lambda: cluster)

    # ---- clusters ----------------------------------------------------------------------------------------

    def _start(self, options: argparse.Namespace) -> None:
        settings = typed_settings(options.options or [])
        start = functools.partial(self._clusters.start, options.workers, options.backend, options.name, settings)
        if options.workers is not None:
            self._fill(options.workers, start, named=True)
            return
        cluster = start()  # only then is it known how many seats there are
        self._fill(cluster.size, lambda: cluster, named=True)

    def _stop(self, _options: argparse.Namespace) -> None:
        if not self._clusters.in_use():
            print("there is no cluster to stop")
            return
        cluster = self._clusters.existing()
        cluster.stop()
        self._clusters.forget()
        print(f"cluster {cluster.name} has been stopped")

    def _list(self, _options: argparse.Namespace) -> Page:
        running = self._clusters.running()
        if not running:
            return Page("no cluster of yours runs here")
        own = self._clusters.current().name if self._clusters.in_use() else ""
        rows = [(c.name, c.host, str(c.pid), "this notebook's" if c.name == own else "") for c in running]
        return Page(table([("name", "host", "hub", ""), *rows]))

    def _attach(self, options: argparse.Namespace) -> None:
        cluster = self._clusters.attach(options.name)
        print(f"attached to cluster {cluster.name}: {readiness(cluster.status(), cluster.size)}")

    def _detach(self, _options: argparse.Namespace) -> None:
        cluster = self._clusters.existing()
        cluster.detach()
        self._clusters.forget()
        print(f"cluster {cluster.name} runs on until it is stopped: %fiber attach {cluster.name}")


def _target(size: int, sign: str, amount: int) -> int:
    return {"": amount, "+": size + amount, "-": max(0, size - amount)}[sign]
