"""One manager for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fibernb.multiprocessing as multiprocessing
from fibernb.multiprocessing.managers import SyncManager


@pytest.fixture(scope="module")
def manager(cluster: object) -> Iterator[SyncManager]:
    with multiprocessing.Manager() as made:
        yield made
