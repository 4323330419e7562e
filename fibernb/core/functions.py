"""Functions by digest: their code, and how long their calls take.

The run time decides how calls travel. A message should hold about ``batch_s`` of work: hundreds of calls that take
microseconds, one that takes milliseconds. While one message is worked on the next may wait behind it, but never
behind calls of ``no_prefetch_s`` or more, nor behind those of which nothing is known yet: these go one at a time to
idle engines.

The estimate is an exponential moving average that believes bad news faster than good ones: calls that take longer
than expected make others wait, calls that take less only cost a message.
"""

from __future__ import annotations

from typing import Final

from fibernb.core.settings import CoreSettings
from fibernb.model import Digest

SLOWER_WEIGHT: Final = 0.5
FASTER_WEIGHT: Final = 0.2


def smoothed(known_s: float | None, run_s: float) -> float:
    """The estimate of a run time, given the one before and a measurement."""
    if known_s is None:
        return run_s
    weight = SLOWER_WEIGHT if run_s > known_s else FASTER_WEIGHT
    return known_s + weight * (run_s - known_s)


class Function:
    """One function. ``users`` counts the clients and replay entries that may still call it."""

    __slots__ = ("code", "digest", "name", "run_s", "users")

    def __init__(self, digest: Digest, code: bytes, name: str) -> None:
        self.digest = digest
        self.code = code
        self.name = name
        self.users = 0
        self.run_s: float | None = None

    def measured(self, run_s: float) -> None:
        """Learn from calls that took ``run_s`` each."""
        self.run_s = smoothed(self.run_s, run_s)

    def batch_calls(self, settings: CoreSettings) -> int:
        """How many calls one message should hold."""
        if self.run_s is None:
            return 1
        if self.run_s * settings.max_batch_calls <= settings.batch_s:
            return settings.max_batch_calls
        return max(1, int(settings.batch_s / self.run_s))

    def may_queue_behind(self, settings: CoreSettings) -> bool:
        """Whether calls may wait on an engine behind calls of this function."""
        return self.run_s is not None and self.run_s < settings.no_prefetch_s


class Functions:
    """All functions that someone may still call."""

    __slots__ = ("by_digest",)

    def __init__(self) -> None:
        self.by_digest: dict[Digest, Function] = {}

    def define(self, digest: Digest, code: bytes, name: str) -> Function:
        """The function of this digest, made if it is new. The caller then counts itself with `use`."""
        function = self.by_digest.get(digest)
        if function is None:
            function = self.by_digest[digest] = Function(digest, code, name)
        return function

    def drop(self, digest: Digest) -> None:
        """One user less; the last one takes the function along."""
        function = self.by_digest[digest]
        function.users -= 1
        if not function.users:
            del self.by_digest[digest]
