"""Which objects the hub keeps for this client, and what it has to be told about them.

A reference is held when its value lives on in the hub: one that was put, that came from somebody else, or whose value
stands in shared memory or contains references. When the last reference to such an object is gone, the hub is told.
`fibernb.client.books` guards all of it with its lock, except for the end of a reference, which takes none: the garbage
collector may bring it about anywhere.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from fibernb.client.refs import ObjectRef
from fibernb.core.messages import Fetch, Hold, Message, PutObjects, Release
from fibernb.model import BlockId, ObjectId, Result

Handle: TypeAlias = "weakref.KeyedRef[ObjectId, ObjectRef]"


class Holdings:
    """The references of one session that the hub has to know of.

    Parameters
    ----------
    rouse : called when a reference has ended, from wherever that happens; sees that `messages` is asked soon.
    """

    def __init__(self, rouse: Callable[[], object]) -> None:
        self.news = False  # whether `messages` would give something
        self.fetching: dict[ObjectId, ObjectRef] = {}  # held references whose values were asked for
        self._rouse = rouse
        self._known: dict[ObjectId, Handle] = {}
        self._held: dict[ObjectId, Message | None] = {}  # and what makes the object, if it is not a value
        self._kept: dict[ObjectId, tuple[ObjectRef, ...]] = {}  # what that message refers to
        self._ended: deque[Handle] = deque()
        self._to_hold: dict[ObjectId, None] = {}
        self._found: set[ObjectId] = set()  # actors that the hub keeps for us since it has found them
        self._disowned: list[ObjectId] = []
        self._to_fetch: dict[ObjectId, None] = {}
        self._lost: dict[BlockId, None] = {}
        self._unconfirmed: dict[ObjectId, None] = {}  # told, or to be told, that we hold them

    # ---- what is held ------------------------------------------------------------------------------------

    def find(self, id_: ObjectId) -> ObjectRef | None:
        """The live reference to an object, as far as it is known here."""
        handle = self._known.get(id_)
        return None if handle is None else handle()

    def know(self, ref: ObjectRef) -> None:
        """The reference may be looked for by its id."""
        if self.find(ref.id) is not ref:
            self._known[ref.id] = weakref.KeyedRef(ref, self._end, ref.id)

    def hold(self, ref: ObjectRef, origin: Message | None = None, keep: tuple[ObjectRef, ...] = ()) -> None:
        """The hub keeps the object from now on.

        Parameters
        ----------
        origin : the message that makes it, if it is not a value.
        keep : what that message refers to.
        """
        self.know(ref)
        self._held[ref.id] = origin
        if keep:
            self._kept[ref.id] = keep

    def borrow(self, ref: ObjectRef) -> None:
        """The hub is to keep an object that somebody else has made, and that is not known here."""
        id_ = ref.id
        self._known[id_] = weakref.KeyedRef(ref, self._end, id_)
        if id_ not in self._held:  # else it is kept for a reference that has ended, of which nobody has been told yet
            self._held[id_] = self._to_hold[id_] = self._unconfirmed[id_] = None
            self.news = True

    def holds(self, id_: ObjectId) -> bool:
        """Whether the hub keeps the object for us."""
        return id_ in self._held

    def forgo(self, id_: ObjectId) -> None:
        """The object was never made after all."""
        self._held.pop(id_, None)
        self._kept.pop(id_, None)

    def found(self, id_: ObjectId) -> None:
        """The hub keeps an actor for us, though it was not told so, since it has found it when we asked."""
        self._found.add(id_)

    def disown(self, id_: ObjectId) -> None:
        """The hub keeps an object for us that nobody here refers to."""
        self._disowned.append(id_)
        self.news = True

    def replace(self, id_: ObjectId, origin: Message) -> None:
        """What a new hub is to be told of the object, if it is still held."""
        if id_ in self._held:
            self._held[id_] = origin

    def ended(self, result: Result) -> None:
        """An object that a message makes has ended as an error, or was never made: a new hub is told that instead."""
        if result.outcome and self._held.get(result.id) is not None:
            self._held[result.id] = PutObjects(objects=[value_for(result.id, result)])
            self._kept.pop(result.id, None)

    def _end(self, handle: Any) -> None:
        self._ended.append(handle)
        self.news = True
        self._rouse()

    # ---- values ------------------------------------------------------------------------------------------

    def fetch(self, ref: ObjectRef, lost: Iterable[BlockId] = ()) -> None:
        """Ask for the value of an object, which must be made again if blocks of it are lost."""
        self._lost.update(dict.fromkeys(lost))
        if ref.id not in self.fetching:
            self.fetching[ref.id] = ref
            self._to_fetch[ref.id] = None
            self.news = True

    # ---- what the hub is told ----------------------------------------------------------------------------

    def messages(self) -> list[Message]:
        """What has come up, in an order in which nothing that is needed can go in between."""
        self.news = False  # before the look: a reference may end meanwhile
        released = [*self.released(), *self._disowned]
        self._disowned = []
        messages: list[Message] = []
        if self._to_hold:
            held, self._to_hold = self._to_hold, {}
            messages.append(Hold(objects=list(held)))
        if self._to_fetch:
            fetched, self._to_fetch = self._to_fetch, {}
            lost, self._lost = self._lost, {}
            messages.append(Fetch(objects=list(fetched), lost=list(lost)))
        if released:
            messages.append(Release(objects=released))
        return messages

    def released(self) -> list[ObjectId]:
        """Objects that the hub has kept for references which are gone."""
        released = []
        while self._ended:
            handle = self._ended.popleft()
            id_ = handle.key
            if self._known.get(id_) is not handle:
                continue  # another reference to the same object has come up since
            del self._known[id_]
            self._unconfirmed.pop(id_, None)
            self._kept.pop(id_, None)
            was_held = self._held.pop(id_, self) is not self
            was_told = self._to_hold.pop(id_, self) is self
            if was_held and (was_told or id_ in self._found):
                released.append(id_)
            self._found.discard(id_)
        return released

    @property
    def unconfirmed(self) -> list[ObjectId]:
        """Borrowed objects of which nobody has said that the hub keeps them for us."""
        return list(self._unconfirmed)

    def confirm(self, ids: Iterable[ObjectId]) -> None:
        """The hub has heard that we hold these."""
        for id_ in ids:
            self._unconfirmed.pop(id_, None)

    def replay(self) -> Iterator[Message]:
        """What a hub that knows nothing is told about everything that is held."""
        self._to_hold = {}
        borrowed = []
        for id_, origin in list(self._held.items()):
            ref = self.find(id_)
            if origin is not None:
                yield origin
            elif ref is not None and ref.answer is not None:
                yield PutObjects(objects=[value_for(id_, ref.answer)])
            else:
                borrowed.append(id_)
        if borrowed:
            yield Hold(objects=borrowed)

    def fetches(self) -> Iterator[Message]:
        """All values that were asked for and are not here."""
        self._to_fetch = {}
        if self.fetching:
            yield Fetch(objects=list(self.fetching))


def value_for(id_: ObjectId, answer: Result) -> Result:
    """An answer as the value of an object."""
    return Result(id_, answer.value, answer.outcome, (), answer.blocks, answer.refs)
