"""Values on their way to the namespaces of ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fibernb.client.refs import ObjectRef
from fibernb.client.session import Session
from fibernb.serialize import Apart


class Parcel(NamedTuple):
    """A pickled value. ``keeper``: the reference that keeps what of it stands in the object store, if anything does."""

    data: bytes
    keeper: ObjectRef | None = None


def parcel_of(session: Session, content: Apart) -> Parcel:
    """A value whose large buffers are put into the store: there they are once a host, for any number of ranks.

    Raises `StoreFull`.
    """
    packed = content.pack(session.store)
    return Parcel(packed.data, session.entries.put(packed) if packed.blocks else None)


def is_lost(session: Session, parcel: Parcel) -> bool:
    """Whether the parcel stands in a store that has ended since."""
    answer = None if parcel.keeper is None else parcel.keeper.answer
    return answer is not None and session.store is not None and not session.store.outlives(answer.blocks)


def keepers_of(parcels: Iterable[Parcel]) -> list[ObjectRef]:
    """The references that must live as long as the parcels are needed."""
    return [parcel.keeper for parcel in parcels if parcel.keeper is not None]
