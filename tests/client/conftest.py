from __future__ import annotations

from collections.abc import Iterator

import pytest

from fibernb.client import api, current, refs
from fibernb.client.session import Session
from tests.client.fake_hub import FakeConnector, FakeHub


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    hub = FakeHub()
    yield hub
    hub.close()


@pytest.fixture
def connector(hub: FakeHub) -> FakeConnector:
    return FakeConnector(hub)


@pytest.fixture
def session(connector: FakeConnector) -> Iterator[Session]:
    session = Session(connector)
    assert refs.reviver is api.revive  # references can travel
    current.use(session)
    yield session
    current.use(None)
    session.close()
