"""What the workers of a pool ask the cluster for, and for which jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fibernb.meta import needs_of


class Asking:
    """The needs of every worker, as `fibernb.meta` has them: the greatest that a function of the pool has.

    ``current`` is what new workers ask for.
    """

    def __init__(self) -> None:
        self.current: dict[str, float] = {}
        self._granted: dict[str, float] = {}  # the most that a worker has been given
        self._jobs: dict[int, Mapping[str, float]] = {}  # those that need something

    def add(self, job: int, needs: Mapping[str, float]) -> bool:
        """A job needs so much. True when that is more than the workers have asked for."""
        self._jobs[job] = needs
        if _covers(self.current, needs):
            return False
        self.current = _most(self.current, needs)
        return True

    def forget(self, job: int) -> None:
        """A job is done."""
        self._jobs.pop(job, None)

    def granted(self, process: Any) -> None:
        """This worker has what it asked for."""
        self._granted = _most(self._granted, needs_of(process))

    def denied(self, process: Any) -> list[int] | None:
        """The cluster can never have what this worker asked for: the jobs that cannot be run therefore.

        New workers ask for what was granted before. None: that is just what this one did, so there are no workers.
        """
        asked = needs_of(process)
        if _covers(self._granted, asked):
            return None
        if asked != self.current:  # more of those that were started together
            return []
        self.current = dict(self._granted)
        return [job for job, needs in self._jobs.items() if not _covers(self._granted, needs)]


def _covers(amounts: Mapping[str, float], needs: Mapping[str, float]) -> bool:
    return all(amounts.get(name, 0) >= amount for name, amount in needs.items())


def _most(some: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    return {name: max(some.get(name, 0), others.get(name, 0)) for name in {**some, **others}}
