"""Values that leave this process: what the hub must have of them before anybody else can ask for them.

`fibernb.client.books` guards it with its lock.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from fibernb.client.holding import Holdings, value_for
from fibernb.client.ledger import Outbox
from fibernb.client.refs import ObjectRef, Owner
from fibernb.errors import NotConnected
from fibernb.model import ObjectId

PARTING_S: Final = 5.0  # how long a message over another link may take


class Values:
    """Sees to it that the hub has the values of references that leave.

    Parameters
    ----------
    owner : the session.
    outbox : where values are put for sending.
    holdings : what the hub keeps for us.
    """

    def __init__(self, owner: Owner, outbox: Outbox, holdings: Holdings) -> None:
        self._owner = owner
        self._outbox = outbox
        self._holdings = holdings
        self.shared: dict[ObjectId, ObjectRef] = {}  # that left by ways of the user's
        self._lent: dict[ObjectId, int] = {}  # of the shared ones, those that are so only until they have parted
        self._parting: deque[tuple[float, ObjectRef]] = deque()  # that left by another link, and until when we wait
        self.part_at = math.inf  # when the first of them is over
        self._fresh = 0  # how many of the last of them the hub may not have heard of

    def depend(self, ref: ObjectRef) -> ObjectId:
        """The id of what others will ask for, seeing to it that the hub has its value or will have it."""
        if ref.session is not self._owner:
            raise NotConnected(f"{ref!r} belongs to another cluster: get its value there, and pass that")
        if self._outbox.diverted is ref:
            self._outbox.come_back()
        if ref.answer is not None and not self._holdings.holds(ref.id):
            self._holdings.hold(ref)
            self._outbox.put(value_for(ref.id, ref.answer))
        return ref.id

    def contained(self, ids: Iterable[ObjectId]) -> list[ObjectRef]:
        """The references that stand inside of a value which leaves now."""
        found = [ref for ref in map(self._holdings.find, ids) if ref is not None]
        for ref in found:
            self.depend(ref)
        return found

    def share(self, ref: ObjectRef) -> None:
        """Nobody can say how long this reference is needed: the hub has its value as soon as there is one, for good."""
        self._lent.pop(ref.id, None)
        if ref.id not in self.shared:
            self.shared[ref.id] = ref
            self.depend(ref)

    def lend(self, ref: ObjectRef, parts: bool) -> None:
        """A reference stands inside of a value that is packed, and that will keep its object.

        ``parts``: the value may leave by another link than ours. Until it has arrived the reference is held, and its
        answer, should it come meanwhile, is put: the hub forgets plain answers once we have them.
        """
        self._holdings.know(ref)
        if parts:
            if ref.id not in self.shared or ref.id in self._lent:
                self.shared[ref.id] = ref
                self._lent[ref.id] = self._lent.get(ref.id, 0) + 1
            self._parting.append((time.monotonic() + PARTING_S, ref))
            self.part_at = self._parting[0][0]
            self._fresh += 1

    def send_parting(self) -> bool:
        """What leaves by another link follows now: the hub is to have it first. False if there is nothing."""
        fresh, self._fresh = self._fresh, 0
        for _, ref in reversed(list(islice(reversed(self._parting), fresh))):
            self.depend(ref)
        return fresh > 0

    def have_parted(self) -> bool:
        """Whether `part` has something to do."""
        return self.part_at < math.inf and self.part_at < time.monotonic()

    def part(self) -> None:
        """Let go of what has arrived by now."""
        if not self.have_parted():
            return
        now = time.monotonic()
        while self._parting and self._parting[0][0] < now:
            self._end_lending(self._parting.popleft()[1].id)
        self._fresh = min(self._fresh, len(self._parting))
        self.part_at = self._parting[0][0] if self._parting else math.inf

    def _end_lending(self, id_: ObjectId) -> None:
        times = self._lent.pop(id_, 0)
        if times > 1:
            self._lent[id_] = times - 1
        elif times:
            del self.shared[id_]
