"""What the hub tells of the cluster while something runs there."""

from __future__ import annotations

import time
from typing import Final

from fibernb.client.session import Session
from fibernb.core.messages import Status

STATUS_AGE_S: Final = 0.2  # how old the hub's word may be


class Watch:
    """The state of the cluster since this was made, as far as the hub has told. Never waits."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asked_at = 0.0
        self._old_status = session.inbox.status  # of the time before there was this

    def told(self) -> Status | None:
        """What the hub has told last."""
        status = self._session.inbox.status
        return None if status is self._old_status else status

    def ask(self) -> Status | None:
        """The same, which is asked for anew if that is some time ago."""
        if time.monotonic() - self._asked_at > STATUS_AGE_S and self._session.over is None:
            self._asked_at = time.monotonic()
            self._session.ask_status()
        return self.told()
