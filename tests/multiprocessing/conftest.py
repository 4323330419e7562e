"""A cluster of two seats for all tests of a module; it leaves nothing behind, or they fail."""

from __future__ import annotations

from tests.integration.conftest import Place, cluster, own_cluster, place, wait_until

__all__ = ["Place", "cluster", "own_cluster", "place", "wait_until"]
