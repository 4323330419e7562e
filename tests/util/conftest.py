from __future__ import annotations

from tests.client.conftest import connector, hub, session

__all__ = ["connector", "hub", "session"]
