"""What an executor's calls need done on an engine before the first of them runs there."""

from __future__ import annotations

import concurrent.futures
import functools
import logging
import os
from collections.abc import Callable
from typing import Any, Final

log: Final = logging.getLogger("concurrent.futures")  # where the standard library's executors tell of it

_failures: Final[dict[bytes, str]] = {}  # by the key of an initializer that ran in this process: why it failed, or ""


class InitializerFailed(concurrent.futures.BrokenExecutor):
    """An initializer raised on an engine."""


class Initializer:
    """The initializer of one executor.

    Parameters
    ----------
    function, arguments : what is called, once on each engine.
    """

    def __init__(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        if not callable(function):
            raise TypeError("initializer must be a callable")
        self._function = function
        self._arguments = arguments
        self._key = os.urandom(16)
        self.failed: str | None = None  # why, as the first engine told

    def before(self, function: Callable[..., Any]) -> Initialized:
        """The function, to be called only where the initializer has run."""
        return Initialized(function, self._function, self._arguments, self._key)

    def check(self) -> None:
        """Raises `BrokenExecutor` once an engine has told that the initializer failed."""
        if self.failed is not None:
            raise concurrent.futures.BrokenExecutor(f"the executor takes no more calls: {self.failed}")

    def look(self, future: concurrent.futures.Future[Any]) -> None:
        """Look at a call that has ended."""
        error = None if future.cancelled() else future.exception()
        if isinstance(error, InitializerFailed) and self.failed is None:
            self.failed = str(error)
            log.critical("Exception in initializer:", exc_info=error)


class Initialized:
    """A function that runs after an initializer, in a process where that has not failed."""

    def __init__(
        self, function: Callable[..., Any], initializer: Callable[..., object], arguments: tuple[Any, ...], key: bytes
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._initializer = initializer
        self._arguments = arguments
        self._key = key

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._key not in _failures:
            self._initialize()
        if _failures[self._key]:
            raise InitializerFailed(_failures[self._key])
        return self._function(*args, **kwargs)

    def _initialize(self) -> None:
        try:
            self._initializer(*self._arguments)
        except Exception as error:
            _failures[self._key] = f"its initializer failed with {type(error).__name__}: {error}"
            raise InitializerFailed(_failures[self._key]) from error
        _failures[self._key] = ""
