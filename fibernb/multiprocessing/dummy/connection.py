"""The library's ``multiprocessing.dummy.connection``: pipes between threads of this process."""

from __future__ import annotations

from multiprocessing.dummy import connection
from multiprocessing.dummy.connection import *  # noqa: F403
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(connection, name)
