"""The test cases of CPython's executors, on `fibernb.Executor`."""

from __future__ import annotations

from typing import Any, Final

import fibernb as fnb
from fibernb import multiprocessing
from tests.cpython import futures_library

_library: Final[Any] = futures_library

KINDS: Final = (
    "ExecutorTest",
    "ProcessPoolExecutorTest",
    "ExecutorShutdownTest",
    "ProcessPoolShutdownTest",
    "ExecutorDeadlockTest",
    "WaitTests",
    "AsCompletedTests",
    "InitializerMixin",
    "FailingInitializerMixin",
)


class FiberMixin(_library.ExecutorMixin):  # type: ignore[misc]  # it comes with the played source
    """Gives a kind of test our executor."""

    executor_type = fnb.Executor

    def get_context(self) -> Any:
        return multiprocessing.get_context()


def install(namespace: dict[str, Any]) -> None:
    """Define one test class for each kind."""
    for kind in KINDS:
        name = f"Fiber{kind}"
        bases = (getattr(_library, kind), FiberMixin, _library.BaseTestCase)
        namespace[name] = type(name, bases, {"__module__": __name__})


install(globals())
