"""A store process, and agents that know it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fibernb.store.agent import StoreAgent
from tests.store.serving import KEY, Served, serving

MAKE = Callable[..., StoreAgent]
INLINE_BYTES = 1000


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, store_bytes=64 * 2**20, spill_bytes=256 * 2**20) as store:
        yield store


@pytest.fixture
def agents() -> Iterator[Callable[[Served, str], StoreAgent]]:
    """Makes agents, which are closed at the end."""
    made: list[StoreAgent] = []

    def make(store: Served, owner: str = "a test") -> StoreAgent:
        made.append(StoreAgent(store.directory, KEY, owner, INLINE_BYTES))
        return made[-1]

    yield make
    for agent in made:
        agent.close()
