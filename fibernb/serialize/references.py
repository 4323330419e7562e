"""Which references stand inside of a value: noted while it is packed.

A reference notes itself when it is pickled. While nobody packs (a user pickles by himself) nothing is noted, and the
reference has to see to it by other means that its object stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from fibernb.model import ObjectId

# Of this thread, or of this task of asyncio.
_found: Final[ContextVar[dict[ObjectId, None] | None]] = ContextVar("references", default=None)


def note(id_: ObjectId) -> bool:
    """Called by a reference that is pickled; whether a value is being packed, so that its reference is counted."""
    found = _found.get()
    if found is None:
        return False
    found[id_] = None
    return True


@contextmanager
def collecting() -> Iterator[dict[ObjectId, None]]:
    """The ids that `note` is told meanwhile, in order and each once."""
    found: dict[ObjectId, None] = {}
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)
