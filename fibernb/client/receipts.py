"""What has been delivered to this client, and when it says so. Pure, apart from the clock."""

from __future__ import annotations

import time
from typing import Final

from fibernb.core.messages import Acknowledge

ACKNOWLEDGE_S: Final = 0.1
ACKNOWLEDGE_DELIVERIES: Final = 64


class Receipts:
    """Deliveries that the hub keeps until they are acknowledged, many at a time."""

    def __init__(self) -> None:
        self._delivered = 0
        self._open = 0
        self._open_since = 0.0

    @property
    def owed(self) -> bool:
        """Whether deliveries have not been acknowledged yet."""
        return self._open > 0

    def note(self, sequence: int) -> None:
        """A delivery has been taken in."""
        if not self._open:
            self._open_since = time.monotonic()
        self._delivered = sequence
        self._open += 1

    def due(self) -> bool:
        """Whether it is time to acknowledge."""
        return self._open > 0 and (
            self._open >= ACKNOWLEDGE_DELIVERIES or time.monotonic() - self._open_since > ACKNOWLEDGE_S
        )

    def take(self) -> Acknowledge:
        """The acknowledgement of all deliveries so far."""
        self._open = 0
        return Acknowledge(sequence=self._delivered)

    def restart(self) -> None:
        """A new link: what was delivered over the old one comes again."""
        self._open = 0
