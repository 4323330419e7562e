"""The standard library's ``multiprocessing`` on a cluster: change the import, and processes are engines.

``import fibernb.multiprocessing as multiprocessing``: names, signatures and exceptions are the library's; see
docs/multiprocessing.md for what differs.
"""

from __future__ import annotations

import atexit
import importlib
from multiprocessing.context import AuthenticationError, BufferTooShort, ProcessError, TimeoutError  # noqa: A004
from multiprocessing.process import active_children, current_process, parent_process
from typing import Any, Final

from fibernb.multiprocessing.context import default
from fibernb.multiprocessing.ending import end_processes
from fibernb.multiprocessing.process import Process

__all__ = [
    "Array",
    "AuthenticationError",
    "Barrier",
    "BoundedSemaphore",
    "BufferTooShort",
    "Condition",
    "Event",
    "JoinableQueue",
    "Lock",
    "Manager",
    "Pipe",
    "Pool",
    "Process",
    "ProcessError",
    "Queue",
    "RLock",
    "RawArray",
    "RawValue",
    "Semaphore",
    "SimpleQueue",
    "TimeoutError",
    "Value",
    "active_children",
    "allow_connection_pickling",
    "cpu_count",
    "current_process",
    "freeze_support",
    "get_all_start_methods",
    "get_context",
    "get_logger",
    "get_start_method",
    "log_to_stderr",
    "parent_process",
    "reducer",
    "set_executable",
    "set_forkserver_preload",
    "set_start_method",
]


atexit.register(end_processes)  # after the client's own, which leaves the cluster: so it comes before that

Array = default.Array
Barrier = default.Barrier
BoundedSemaphore = default.BoundedSemaphore
Condition = default.Condition
Event = default.Event
JoinableQueue = default.JoinableQueue
Lock = default.Lock
Manager = default.Manager
Pipe = default.Pipe
Pool = default.Pool
Queue = default.Queue
RLock = default.RLock
RawArray = default.RawArray
RawValue = default.RawValue
Semaphore = default.Semaphore
SimpleQueue = default.SimpleQueue
Value = default.Value
allow_connection_pickling = default.allow_connection_pickling
cpu_count = default.cpu_count
freeze_support = default.freeze_support
get_all_start_methods = default.get_all_start_methods
get_context = default.get_context
get_logger = default.get_logger
get_start_method = default.get_start_method
log_to_stderr = default.log_to_stderr
set_executable = default.set_executable
set_forkserver_preload = default.set_forkserver_preload
set_start_method = default.set_start_method

_HOMES: Final = {
    "SUBDEBUG": "util",
    "SUBWARNING": "util",
    "AsyncManager": "managers",  # and what is beyond the library's own
    "Ring": "ring",
    "RingNode": "ring",
    "ThreadPool": "pool",
}
_MODULES: Final = (
    "connection",
    "context",
    "dummy",
    "heap",
    "managers",
    "pool",
    "process",
    "queues",
    "reduction",
    "shared_memory",
    "sharedctypes",
    "synchronize",
    "util",
)


def __getattr__(name: str) -> Any:
    """What is loaded at its first use."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name == "reducer":
        return importlib.import_module(f"{__name__}.reduction")
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
