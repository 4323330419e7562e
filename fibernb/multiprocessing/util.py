"""The library's ``multiprocessing.util``, under the name that a program finds it by after its import was changed."""

from __future__ import annotations

from multiprocessing import util
from multiprocessing.util import *  # noqa: F403
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(util, name)
