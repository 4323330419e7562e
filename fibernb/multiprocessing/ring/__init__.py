"""Rings of processes that run the same function and combine what they have, as Fiber's ``Ring``."""

from __future__ import annotations

from fibernb.multiprocessing.ring.member import RingMember, current_ring
from fibernb.multiprocessing.ring.owner import Ring
from fibernb.multiprocessing.ring.talk import RingNode

__all__ = ["Ring", "RingMember", "RingNode", "current_ring"]
