"""Which ranks are meant: by text, number, slice or list."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from fibernb.errors import ConfigError
from fibernb.model import Rank


def parse_ranks(text: str, size: int) -> list[Rank]:
    """The ranks that a text such as ``0``, ``0,3``, ``1:8``, ``::2`` or ``!0`` stands for, each once.

    A leading ``!`` leaves out what follows it; negative numbers count from the end.

    Raises `ConfigError` for what is no such text, and for ranks that do not exist.
    """
    stripped = text.strip()
    if stripped.startswith("!"):
        left_out = set(parse_ranks(stripped[1:], size))
        return [rank for rank in range(size) if rank not in left_out]
    ranks: dict[Rank, None] = {}
    for word in stripped.split(","):
        ranks.update(dict.fromkeys(_parse_word(word.strip(), text, size)))
    return list(ranks)


def _parse_word(word: str, text: str, size: int) -> list[Rank]:
    try:
        bounds = [int(bound) if bound.strip() else None for bound in word.split(":")]
        if len(bounds) == 1 and bounds[0] is not None:
            return [checked(bounds[0], size)]
        if 2 <= len(bounds) <= 3:
            return list(range(size))[slice(*bounds)]
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise _misfit(text) from error
    raise _misfit(text)


def _misfit(text: str) -> ConfigError:
    return ConfigError(f"{text!r} names no ranks. Write one (0), some (0,3), a slice (1:8, ::2) or all but some (!0).")


def select(key: Any, size: int) -> list[Rank]:
    """The ranks that an index stands for: a number, a slice, or numbers.

    Raises `ConfigError` for ranks that do not exist, `TypeError` for what is no index.
    """
    if isinstance(key, slice):
        return list(range(size))[key]
    if isinstance(key, str):
        return parse_ranks(key, size)
    if isinstance(key, Iterable):
        return [checked(_number(item), size) for item in key]
    return [checked(_number(key), size)]


def _number(key: Any) -> int:
    try:
        return operator.index(key)
    except TypeError:
        raise TypeError(f"ranks are chosen by a number, a slice or a list of numbers, not by {key!r}") from None


def checked(rank: int, size: int) -> Rank:
    """The rank, counted from the end if negative. Raises `ConfigError` if there is none."""
    if not -size <= rank < size:
        there_are = f"ranks are 0 to {size - 1}" if size else "the cluster has no seats: scale it up"
        raise ConfigError(f"there is no rank {rank}: {there_are}")
    return rank % size
