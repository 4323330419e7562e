"""Which values of the notebook each rank lacks.

A rank gets a name when the content of the notebook's value differs from what the rank was last sent; so what an engine
assigned to it stays until the notebook's own value changes. A name that a cell may have assigned there before it was
ever sent goes out with the request to keep what the engine has. A new engine on a seat gets the old content again from
the hub before anything else runs there, so the books stay true for it.

Content is compared by a digest of the pickle, made anew for every cell that reads the name: there is no cheaper way to
notice that a list or an array was changed in place. Large arrays are not copied for it. When one is sent it goes to the
object store of the host, once for all ranks; engines share its memory until they write to it (copy on write, by pages).
So ``x += 1`` and ``x[0] = 1`` work there as they do on small arrays, which read-only ones would not let them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from fibernb.client.parcels import Parcel
from fibernb.errors import SerializationError
from fibernb.model import Digest, Rank
from fibernb.notebook import sharing
from fibernb.notebook.forgiving import ForgivingPickler
from fibernb.notebook.standin import Pushed
from fibernb.serialize import Apart


class Content(NamedTuple):
    """A pickled value and the digest of its content. ``value``: what it is made of, unless a stand-in is part of it."""

    digest: Digest
    pickled: Apart
    value: object = None


class Delivery(NamedTuple):
    """Names that some ranks lack alike. ``keep``: only where the engine has no value of its own."""

    ranks: tuple[Rank, ...]
    names: tuple[str, ...]
    keep: bool = False


class _Stored(NamedTuple):
    digest: bytes  # of all that are sent together
    parcel: Parcel


class _Entry(NamedTuple):
    digest: Digest
    arrived: bool = True  # false: never sent, but a cell may have assigned the name


class PushLedger:
    """What every rank holds of the notebook, by name."""

    def __init__(self) -> None:
        self._held: dict[Rank, dict[str, _Entry]] = {}
        self._everywhere: dict[str, _Entry] = {}  # what ranks begin with that are not in the books yet
        self._stored: dict[str, _Stored] = {}  # large values, for ranks that will lack them later

    def deliveries(self, contents: Mapping[str, Content], ranks: Iterable[Rank]) -> list[Delivery]:
        """What to send to whom, ranks that lack the same together."""
        lacking: dict[tuple[tuple[str, ...], bool], list[Rank]] = {}
        for rank in ranks:
            for keep in (False, True):
                names = tuple(name for name, content in contents.items() if self._lacks(rank, name, content) is keep)
                if names:
                    lacking.setdefault((names, keep), []).append(rank)
        return [Delivery(tuple(members), names, keep) for (names, keep), members in lacking.items()]

    def note(self, delivery: Delivery, contents: Mapping[str, Content], *, everywhere: bool = False) -> None:
        """The delivery is on its way; ``everywhere``: to all ranks that there are and that will be."""
        entries = {name: _Entry(contents[name].digest) for name in delivery.names}
        for rank in delivery.ranks:
            self._books_of(rank).update(entries)
        if everywhere:
            self._everywhere.update(entries)

    def note_assigned(self, contents: Mapping[str, Content], ranks: Iterable[Rank]) -> None:
        """A cell may assign these names there; ``contents`` are what the notebook has under them now."""
        for rank in ranks:
            held = self._books_of(rank)
            for name, content in contents.items():
                if name not in held or held[name].digest != content.digest:
                    held[name] = _Entry(content.digest, arrived=False)

    def forget(self, ranks: Iterable[Rank], names: Iterable[str]) -> None:
        """A delivery did not arrive, so these names go out again."""
        for rank in ranks:
            for name in names:
                self._books_of(rank).pop(name, None)
                self._stored.pop(name, None)

    def knows(self, name: str) -> bool:
        """Whether the name has been sent anywhere."""
        return any(name in held for held in (self._everywhere, *self._held.values()))

    def give_up(self, names: Iterable[str], is_lost: Callable[[Parcel], bool]) -> None:
        """Of these names, those whose values the object store has lost go out again, to engines that lack them."""
        for name in names:
            stored = self._stored.get(name)
            if stored is not None and is_lost(stored.parcel):
                del self._stored[name]
                for held in (self._everywhere, *self._held.values()):
                    if name in held:
                        held[name] = _Entry(held[name].digest, arrived=False)

    def parcels(
        self, names: Iterable[str], contents: Mapping[str, Content], make: Callable[[Apart], Parcel]
    ) -> dict[str, Parcel]:
        """What is sent, by name, or by several names with blanks between them: that is a dict of values which have
        something in common.

        Of large values that are in the object store already it is the same again.
        """
        given = {name: contents[name] for name in names}
        return {" ".join(group): self._parcel(group, given, make) for group in _groups(given)}

    def _parcel(
        self, names: tuple[str, ...], contents: Mapping[str, Content], make: Callable[[Apart], Parcel]
    ) -> Parcel:
        digest = b"".join(contents[name].digest for name in names)
        stored = self._stored.get(names[0])
        if stored is not None and stored.digest == digest:
            return stored.parcel
        parcel = make(_together(names, contents))
        for name in names:
            self._stored.pop(name, None)
            if parcel.keeper is not None:
                self._stored[name] = _Stored(digest, parcel)
        return parcel

    def _books_of(self, rank: Rank) -> dict[str, _Entry]:
        return self._held.setdefault(rank, dict(self._everywhere))

    def _lacks(self, rank: Rank, name: str, content: Content) -> bool | None:
        """None: nothing. Otherwise whether what the engine has is to be kept."""
        entry = self._held.get(rank, self._everywhere).get(name)
        if entry is None or entry.digest != content.digest:
            return False
        return None if entry.arrived else True


def pack(names: Iterable[str], namespace: Mapping[str, object], *, strict: bool = False) -> dict[str, Content]:
    """Pickle these values of the notebook.

    What cannot be pickled becomes a stand-in that raises SerializationError when used: the whole value, or what a
    function mentions. ``strict`` raises it now.
    """
    return {name: _content(name, namespace[name], strict) for name in names}


def _content(name: str, value: object, strict: bool) -> Content:
    try:
        pickled = Apart(value, name)
    except SerializationError as error:
        if strict:
            raise
        pickled = _stand_in(name, value, str(error))
        return Content(pickled.digest(), pickled)
    return Content(pickled.digest(), pickled, value)


def _stand_in(name: str, value: object, reason: str) -> Apart:
    try:
        return Apart(value, name, ForgivingPickler)
    except SerializationError:
        return Apart(Pushed(name, reason))


def _groups(contents: Mapping[str, Content]) -> list[tuple[str, ...]]:
    values = {name: content.value for name, content in contents.items() if content.value is not None}
    return [*sharing.groups(values), *((name,) for name in contents if name not in values)]


def _together(names: tuple[str, ...], contents: Mapping[str, Content]) -> Apart:
    if len(names) == 1:
        return contents[names[0]].pickled
    return Apart({name: contents[name].value for name in names})
