"""A table of random numbers that all engines of a host share, as evolution strategies use it.

See Salimans et al., "Evolution strategies as a scalable alternative to reinforcement learning", 2017, section 2.1:
workers that have the same table need to tell each other only where in it a perturbation begins.
"""

from __future__ import annotations

import functools
import importlib
import operator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fibernb.client import api
from fibernb.client.refs import ObjectRef
from fibernb.client.remoting import remote
from fibernb.client.waiting import get
from fibernb.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    Noise: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float32]]

NAMESPACE: Final = "fibernb"
REMEMBERED_TABLES: Final = 4  # of each process


class NoiseTable:
    """Normally distributed numbers (mean 0, variance 1), as read-only float32.

    The table is made once, when somebody first reads it, and lies in the host's object store for as long as the cluster
    lives; nobody has a copy of it. It may be sent anywhere: what travels is its size and its seed.

    Parameters
    ----------
    items : how many numbers, each of 4 bytes.
    seed : tables of the same size and seed are one.
    """

    def __init__(self, items: int, seed: int = 0) -> None:
        self.items = operator.index(items)
        self.seed = operator.index(seed)
        if self.items < 1 or self.seed < 0:
            raise ConfigError(f"a noise table has at least one item and a seed of at least 0, not {items} and {seed}")

    @property
    def array(self) -> Noise:
        """All of it."""
        noise: Noise = _shared(api.current_cluster().name, self.items, self.seed)
        return noise

    def get(self, start: int, items: int) -> Noise:
        """So many numbers, from a place on. Raises `IndexError` when the table does not have them."""
        if start < 0 or items < 0 or start + items > self.items:
            raise IndexError(f"items {start} to {start + items} are not all in a table of {self.items}")
        return self.array[start : start + items]

    def sample(self, random: Any, items: int) -> int:
        """A place from which so many numbers can be had, drawn with a generator of numpy's.

        Raises `IndexError` when the table is smaller than that.
        """
        if items > self.items:
            raise IndexError(f"{items} items are more than the {self.items} of the table")
        draw = random.integers if hasattr(random, "integers") else random.randint
        return int(draw(0, self.items - items + 1))

    def __len__(self) -> int:
        return self.items

    def __repr__(self) -> str:
        return f"NoiseTable({self.items}, seed={self.seed})"


class Keeper:
    """The actor that has a table made, and holds it."""

    def __init__(self, items: int, seed: int) -> None:
        make: Any = remote(num_cpus=0)(_made)
        self._table: ObjectRef = make.remote(items, seed)

    def table(self) -> list[ObjectRef]:
        return [self._table]


def _made(items: int, seed: int) -> Any:
    np = importlib.import_module("numpy")
    return np.random.default_rng(seed).standard_normal(items, dtype=np.float32)


@functools.lru_cache(REMEMBERED_TABLES)
def _shared(cluster: str, items: int, seed: int) -> Any:  # noqa: ARG001  a table belongs to its cluster
    keeper: Any = remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Keeper)
    named = keeper.options(
        name=f"noise table {items} {seed}", namespace=NAMESPACE, lifetime="detached", get_if_exists=True
    )
    (table,) = get(named.remote(items, seed).table.remote())
    array = get(table)
    array.flags.writeable = False
    return array
