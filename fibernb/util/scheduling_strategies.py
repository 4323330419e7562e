"""Where tasks and actors run: values of the option ``scheduling_strategy``, besides "DEFAULT" and "SPREAD"."""

from __future__ import annotations

from fibernb.client.strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

__all__ = ["NodeAffinitySchedulingStrategy", "PlacementGroupSchedulingStrategy"]
