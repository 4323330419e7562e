"""Which values of the notebook each rank lacks.

A rank gets a name when the content of the notebook's value differs from what the rank was last sent; so what an engine
assigned to it stays until the notebook's own value changes. A name that a cell may have assigned there before it was
ever sent goes out with the request to keep what the engine has. A new engine on a seat gets the old content again from
the hub before anything else runs there, so the books stay true for it.

Content is compared by a digest of the pickle, made anew for every cell that reads the name: there is no cheaper way to
notice that a list or an array was changed in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fibernb import serialize
from fibernb.errors import SerializationError
from fibernb.model import Digest, Rank
from fibernb.notebook.standin import Pushed


class Parcel(NamedTuple):
    """A pickled value and the digest of its content."""

    digest: Digest
    data: bytes


class Delivery(NamedTuple):
    """Values that some ranks lack alike. ``keep``: only where the engine has no value of its own."""

    ranks: tuple[Rank, ...]
    values: Mapping[str, bytes]
    keep: bool = False


class _Entry(NamedTuple):
    digest: Digest
    arrived: bool = True  # false: never sent, but a cell may have assigned the name


class PushLedger:
    """What every rank holds of the notebook, by name."""

    def __init__(self) -> None:
        self._held: dict[Rank, dict[str, _Entry]] = {}
        self._everywhere: dict[str, _Entry] = {}  # what ranks begin with that are not in the books yet

    def deliveries(self, parcels: Mapping[str, Parcel], ranks: Iterable[Rank]) -> list[Delivery]:
        """What to send to whom, ranks that lack the same together."""
        lacking: dict[tuple[tuple[str, ...], bool], list[Rank]] = {}
        for rank in ranks:
            for keep in (False, True):
                names = tuple(name for name, parcel in parcels.items() if self._lacks(rank, name, parcel) is keep)
                if names:
                    lacking.setdefault((names, keep), []).append(rank)
        return [
            Delivery(tuple(members), {name: parcels[name].data for name in names}, keep)
            for (names, keep), members in lacking.items()
        ]

    def note(self, delivery: Delivery, parcels: Mapping[str, Parcel], *, everywhere: bool = False) -> None:
        """The delivery is on its way; ``everywhere``: to all ranks that there are and that will be."""
        entries = {name: _Entry(parcels[name].digest) for name in delivery.values}
        for rank in delivery.ranks:
            self._books_of(rank).update(entries)
        if everywhere:
            self._everywhere.update(entries)

    def note_assigned(self, parcels: Mapping[str, Parcel], ranks: Iterable[Rank]) -> None:
        """A cell may assign these names there; ``parcels`` hold what the notebook has under them now."""
        for rank in ranks:
            held = self._books_of(rank)
            for name, parcel in parcels.items():
                if name not in held or held[name].digest != parcel.digest:
                    held[name] = _Entry(parcel.digest, arrived=False)

    def forget(self, ranks: Iterable[Rank], names: Iterable[str]) -> None:
        """A delivery did not arrive, so these names go out again."""
        for rank in ranks:
            for name in names:
                self._books_of(rank).pop(name, None)

    def _books_of(self, rank: Rank) -> dict[str, _Entry]:
        return self._held.setdefault(rank, dict(self._everywhere))

    def _lacks(self, rank: Rank, name: str, parcel: Parcel) -> bool | None:
        """None: nothing. Otherwise whether what the engine has is to be kept."""
        entry = self._held.get(rank, self._everywhere).get(name)
        if entry is None or entry.digest != parcel.digest:
            return False
        return None if entry.arrived else True


def pack(names: Iterable[str], namespace: Mapping[str, object], *, strict: bool = False) -> dict[str, Parcel]:
    """Pickle these values of the notebook.

    One that cannot be pickled becomes a stand-in that raises SerializationError when used; ``strict`` raises it now.
    """
    parcels = {}
    for name in names:
        data = serialize.dumps(namespace[name], name) if strict else _dumps(name, namespace[name])
        parcels[name] = Parcel(serialize.content_digest(data), data)
    return parcels


def _dumps(name: str, value: object) -> bytes:
    try:
        return serialize.dumps(value, name)
    except SerializationError as error:
        return serialize.dumps(Pushed(name, str(error)))
