"""Brings the notebook's values to the ranks that lack them."""

from __future__ import annotations

import builtins
import functools
import weakref
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from IPython.core.interactiveshell import InteractiveShell

from fibernb.client import failures
from fibernb.client.calls import TITLES
from fibernb.client.cells import CellHandle
from fibernb.client.cluster import Cluster
from fibernb.client.parcels import Parcel, is_lost, parcel_of
from fibernb.client.ranks import RankView
from fibernb.client.session import Session, define
from fibernb.model import Rank
from fibernb.notebook.arrival import set_missing_names
from fibernb.notebook.body import Body, names_of_user
from fibernb.notebook.pushing import Content, Delivery, PushLedger, pack
from fibernb.notebook.request import Request
from fibernb.notebook.usage import UsageError

SET_MISSING_NAMES: Final = define(set_missing_names, TITLES["set_names"])


class Supply:
    """Pushes names of one notebook, each to a rank only when its content has changed."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._ledgers: weakref.WeakKeyDictionary[Session, PushLedger] = weakref.WeakKeyDictionary()

    def send(self, cluster: Cluster, ranks: Sequence[Rank], body: Body, request: Request) -> Shipment:
        """Send what the body reads and ``--push`` names; what the body assigns is noted as the engines' own.

        A builtin that the notebook has redefined, and does so no more, is itself again on the engines as well.
        """
        own = frozenset() if request.each is None else frozenset(request.each.names)
        ledger = self._ledger(cluster)
        shipment = Shipment(ledger)
        if request.pushes:
            names = {*names_of_user(self._shell, body.reads - own), *self._known(request.push)}
            restored = {name for name in body.reads - own - names if hasattr(builtins, name) and ledger.knows(name)}
            values = ChainMap({name: getattr(builtins, name) for name in restored}, self._shell.user_ns)
            shipment = self._ship(cluster, ranks, pack(sorted(names | restored), values))
        assigned = names_of_user(self._shell, body.assigns | own)
        ledger.note_assigned(pack(assigned, self._shell.user_ns), ranks)
        return shipment

    def push(self, cluster: Cluster, ranks: Sequence[Rank], names: Iterable[str]) -> None:
        """Send these names, changed or not, and wait until they have arrived. Raises what keeps them from it."""
        wanted = self._known(names)
        contents = pack(wanted, self._shell.user_ns, strict=True)
        self._ledger(cluster).forget(ranks, wanted)
        self._ship(cluster, ranks, contents).check()

    def note_sent(self, cluster: Cluster, ranks: Sequence[Rank], names: Iterable[str]) -> None:
        """The ranks hold something of their own under these names, made from the notebook's values of now."""
        contents = pack(names, self._shell.user_ns)
        self._ledger(cluster).note(Delivery(tuple(ranks), tuple(contents)), contents)

    def _ship(self, cluster: Cluster, ranks: Sequence[Rank], contents: Mapping[str, Content]) -> Shipment:
        ledger = self._ledger(cluster)
        shipment = Shipment(ledger)
        make = functools.partial(parcel_of, cluster.session)
        if not ranks:
            cluster.view(None).leave_parcels(ledger.parcels(contents, contents, make))
        ledger.give_up(contents, functools.partial(is_lost, cluster.session))
        for delivery in ledger.deliveries(contents, ranks):
            parcels = ledger.parcels(delivery.names, contents, make)
            all_of_them = len(delivery.ranks) == cluster.size
            ledger.note(delivery, contents, everywhere=all_of_them and not delivery.keep)
            view = cluster.view(None if all_of_them else delivery.ranks)
            shipment.add(delivery, _send_missing(view, parcels) if delivery.keep else view.push_parcels(parcels))
        return shipment

    def _known(self, names: Iterable[str]) -> list[str]:
        wanted = list(names)
        missing = [name for name in wanted if name not in self._shell.user_ns]
        if missing:
            raise UsageError(f"this notebook has no variable {missing[0]!r} to push")
        return wanted

    def _ledger(self, cluster: Cluster) -> PushLedger:
        return self._ledgers.setdefault(cluster.session, PushLedger())


def _send_missing(view: RankView, parcels: Mapping[str, Parcel]) -> CellHandle:
    """Send what the engines are to keep their own values of, if they have any."""
    handle = view.start_with_parcels(SET_MISSING_NAMES, parcels)
    view.leave_parcels(parcels)
    return handle


class Shipment:
    """Deliveries that are under way."""

    def __init__(self, ledger: PushLedger) -> None:
        self._ledger = ledger
        self._under_way: list[tuple[Delivery, CellHandle]] = []

    def add(self, delivery: Delivery, handle: CellHandle) -> None:
        """Keep an eye on this one."""
        self._under_way.append((delivery, handle))

    def check(self) -> None:
        """Wait until everything has arrived. What has not goes out again next time; its error is raised."""
        failed: dict[Rank, BaseException] = {}
        for delivery, handle in self._under_way:
            handle.wait()
            errors = handle.errors()
            self._ledger.forget(errors, delivery.names)
            failed.update(errors)
        if failed:
            raise failures.combined(failed, sum(len(delivery.ranks) for delivery, _ in self._under_way))
