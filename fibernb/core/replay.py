"""The namespace of the cluster: calls that are repeated on every new engine.

An entry stands for keys (names in the namespace, say) on ranks. A later entry takes over the keys that it shares with
an earlier one, for the ranks that it has; an earlier entry with nothing left is dropped. What is left of an entry is
repeated whole and in order, so later entries win.
"""

from __future__ import annotations

from fibernb.core.messages import Remember
from fibernb.model import Rank


class Scope:
    """The ranks for which an entry's key still counts: ``all`` but ``ranks``, or just ``ranks``."""

    __slots__ = ("all", "ranks")

    def __init__(self, ranks: list[Rank] | None) -> None:
        self.all = ranks is None
        self.ranks: set[Rank] = set(ranks or ())

    def covers(self, rank: Rank) -> bool:
        return (rank in self.ranks) != self.all

    def give_up(self, ranks: list[Rank] | None) -> bool:
        """Leave these ranks to a later entry; False when none is left."""
        if ranks is None:
            return False
        if self.all:
            self.ranks.update(ranks)
            return True
        self.ranks.difference_update(ranks)
        return bool(self.ranks)


class Remembered:
    """One entry and what is left of it. An entry without keys is never taken over."""

    __slots__ = ("_keyless", "_scopes", "message")

    def __init__(self, message: Remember) -> None:
        self.message = message
        self._keyless = Scope(message.ranks)
        self._scopes = {key: Scope(message.ranks) for key in message.keys}

    def wanted_on(self, rank: Rank) -> bool:
        if not self.message.keys:
            return self._keyless.covers(rank)
        return any(scope.covers(rank) for scope in self._scopes.values())

    def give_way(self, later: Remember) -> bool:
        """Leave to a later entry what it takes over; False when nothing is left."""
        if later == self.message:
            return False
        for key in later.keys:
            scope = self._scopes.get(key)
            if scope is not None and not scope.give_up(later.ranks):
                del self._scopes[key]
        return bool(self._scopes) or not self.message.keys

    def args_for(self, rank: Rank) -> bytes:
        message = self.message
        if len(message.args) == 1 or message.ranks is None:
            return message.args[0]
        return message.args[message.ranks.index(rank)]


class Replay:
    """All entries, oldest first."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[Remembered] = []

    def remember(self, message: Remember) -> list[Remember]:
        """Add an entry; returns those that are dropped for it."""
        kept: list[Remembered] = []
        dropped: list[Remember] = []
        for entry in self.entries:
            if entry.give_way(message):
                kept.append(entry)
            else:
                dropped.append(entry.message)
        self.entries = [*kept, Remembered(message)]
        return dropped

    def for_rank(self, rank: Rank) -> list[Remembered]:
        """What a new engine of this rank has to repeat, in order."""
        return [entry for entry in self.entries if entry.wanted_on(rank)]
