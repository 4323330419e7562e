"""The library's ``multiprocessing.dummy``: its API on threads of this process."""

from __future__ import annotations

from multiprocessing import dummy
from multiprocessing.dummy import *  # noqa: F403
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(dummy, name)
