"""Placement groups: what they ask for and where it is reserved."""

from __future__ import annotations

from fibernb.core.leases import Bundle
from fibernb.core.messages import CreateGroup
from fibernb.model import ClientId, ObjectId, Result


class Placement:
    """One placement group. ``value``: what its object is, once that is decided. ``ended``: why it is no more."""

    __slots__ = ("bundles", "client", "create", "ended", "id", "value")

    def __init__(self, create: CreateGroup, client: ClientId) -> None:
        self.id: ObjectId = create.group
        self.create = create
        self.client = client
        self.bundles = [Bundle(asked) for asked in create.bundles]
        self.value: Result | None = None
        self.ended = ""

    @property
    def state(self) -> str:
        if self.ended:
            return "REMOVED"
        return "CREATED" if self.placed() else "PENDING"

    def placed(self) -> bool:
        return all(bundle.node is not None for bundle in self.bundles)

    def choice(self, index: int) -> list[Bundle]:
        """The bundles that a task may run in; -1: any."""
        return self.bundles if index < 0 else self.bundles[index : index + 1]
