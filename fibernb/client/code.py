"""The code of functions and classes that run on the cluster, by content.

It is pickled at the first use. In a notebook its globals and helpers may change afterwards: the notebook layer raises
`epoch` with every cell, and the first use in a new epoch pickles again. Only when the content has changed does anything
travel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fibernb.client.session import define
from fibernb.core.messages import DefineFunction

epoch = 0  # raised when what functions refer to may have changed


def next_epoch() -> None:
    """What functions refer to may have changed: their next calls look."""
    global epoch
    epoch += 1


class Code:
    """The pickle of a function or class, made again once an epoch."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._epoch = -1
        self._message: DefineFunction | None = None

    def current(self) -> DefineFunction:
        """The message that makes it known to the hub."""
        if self._message is None or self._epoch != epoch:
            self._message = define(self._function)
            self._epoch = epoch
        return self._message
