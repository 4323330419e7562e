"""Brings the notebook's values to the ranks that lack them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from IPython.core.interactiveshell import InteractiveShell

from fibernb import serialize
from fibernb.client import failures
from fibernb.client.cells import CellHandle
from fibernb.client.cluster import Cluster
from fibernb.client.refs import ObjectRef
from fibernb.client.session import Session, define
from fibernb.core.messages import Remember
from fibernb.engine import operations
from fibernb.model import Rank
from fibernb.notebook.arrival import set_missing_names
from fibernb.notebook.body import Body, names_of_user
from fibernb.notebook.pushing import Delivery, Parcel, PushLedger, pack
from fibernb.notebook.request import Request
from fibernb.notebook.usage import UsageError

SET_NAMES: Final = define(operations.set_names)


class Supply:
    """Pushes names of one notebook, each to a rank only when its content has changed."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._ledgers: weakref.WeakKeyDictionary[Session, PushLedger] = weakref.WeakKeyDictionary()

    def send(self, cluster: Cluster, ranks: Sequence[Rank], body: Body, request: Request) -> Shipment:
        """Send what the body reads and ``--push`` names; what the body assigns is noted as the engines' own."""
        own = frozenset() if request.each is None else frozenset({request.each.name})
        shipment = Shipment(self._ledger(cluster))
        if request.pushes:
            names = {*names_of_user(self._shell, body.reads - own), *self._known(request.push)}
            shipment = self._ship(cluster, ranks, pack(sorted(names), self._shell.user_ns))
        assigned = names_of_user(self._shell, body.assigns | own)
        self._ledger(cluster).note_assigned(pack(assigned, self._shell.user_ns), ranks)
        return shipment

    def push(self, cluster: Cluster, ranks: Sequence[Rank], names: Iterable[str]) -> None:
        """Send these names, changed or not, and wait until they have arrived. Raises what keeps them from it."""
        wanted = self._known(names)
        parcels = pack(wanted, self._shell.user_ns, strict=True)
        self._ledger(cluster).forget(ranks, wanted)
        self._ship(cluster, ranks, parcels).check()

    def note_sent(self, cluster: Cluster, ranks: Sequence[Rank], names: Iterable[str]) -> None:
        """The ranks hold something of their own under these names, made from the notebook's values of now."""
        parcels = pack(names, self._shell.user_ns)
        self._ledger(cluster).note(Delivery(tuple(ranks), dict.fromkeys(parcels, b"")), parcels)

    def _ship(self, cluster: Cluster, ranks: Sequence[Rank], parcels: Mapping[str, Parcel]) -> Shipment:
        ledger = self._ledger(cluster)
        shipment = Shipment(ledger)
        if not ranks:
            _leave_for_later(cluster, {name: parcel.data for name, parcel in parcels.items()}, None)
        for delivery in ledger.deliveries(parcels, ranks):
            all_of_them = len(delivery.ranks) == cluster.size
            ledger.note(delivery, parcels, everywhere=all_of_them and not delivery.keep)
            view = cluster.view(None if all_of_them else delivery.ranks)
            if delivery.keep:
                shipment.add(delivery, view.apply_nowait(set_missing_names, dict(delivery.values)))
                _leave_for_later(cluster, delivery.values, delivery.ranks)
            else:
                shipment.add(delivery, view.push_pickled(delivery.values))
        return shipment

    def _known(self, names: Iterable[str]) -> list[str]:
        wanted = list(names)
        missing = [name for name in wanted if name not in self._shell.user_ns]
        if missing:
            raise UsageError(f"this notebook has no variable {missing[0]!r} to push")
        return wanted

    def _ledger(self, cluster: Cluster) -> PushLedger:
        return self._ledgers.setdefault(cluster.session, PushLedger())


def _leave_for_later(cluster: Cluster, values: Mapping[str, bytes], ranks: Sequence[Rank] | None) -> None:
    """Let new engines on these seats (None: on all) begin with these values."""
    cluster.session.define(SET_NAMES)
    for name, data in values.items():
        args, _ = serialize.dumps_call(({name: data},), {}, ObjectRef)
        seats = None if ranks is None else list(ranks)
        cluster.session.tell(Remember(keys=(f"name {name}",), function=SET_NAMES.digest, args=[args], ranks=seats))


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
            self._ledger.forget(errors, delivery.values)
            failed.update(errors)
        if failed:
            raise failures.combined(failed, sum(len(delivery.ranks) for delivery, _ in self._under_way))
