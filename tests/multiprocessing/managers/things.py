"""What the servers of the tests' managers hold."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import fibernb.multiprocessing.managers as managers


class NoFuel(Exception):
    """An exception of the tests' own."""


class Engine:
    """Something with public methods, one that is not, and one that fails."""

    def __init__(self, power: Any = 1) -> None:
        self.power = power

    def drive(self, distance: int) -> Any:
        return self.power * distance

    def fail(self) -> None:
        raise NoFuel("the tank is empty")

    def meet(self) -> Any:
        return self.power.wait()

    def report(self, what: str) -> None:
        self.power.put(what)

    def pid(self) -> int:
        return os.getpid()

    def end(self) -> None:
        os._exit(3)

    def _hidden(self) -> str:
        return "hidden"


class Gate:
    """Lets a caller wait until somebody opens it, and tells whether one waits."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._opened = threading.Event()

    def pass_through(self) -> str:
        self._entered.set()
        self._opened.wait()
        return "passed"

    def wait_for_caller(self) -> None:
        self._entered.wait()

    def open(self) -> None:
        self._opened.set()

    def meaning(self) -> int:
        return 42


def count_to(limit: int) -> Iterator[int]:
    yield from range(limit)


class Garage:
    """Makes engines that stay in the server."""

    def build(self, power: int) -> Engine:
        return Engine(power)


class EngineProxy(managers.BaseProxy):
    """Shows one method under another name."""

    _exposed_ = ("drive",)

    def go(self, distance: int) -> Any:
        return self._callmethod("drive", (distance,))


class Workshop(managers.BaseManager):
    """A manager with types of the tests' own."""


Workshop.register("Engine", Engine)
Workshop.register("Open", Engine, exposed=("_hidden", "drive"))
Workshop.register("Shown", Engine, proxytype=EngineProxy)
Workshop.register("Gate", Gate)
Workshop.register("Built", create_method=False)
Workshop.register("Garage", Garage, method_to_typeid={"build": "Built"})
Workshop.register("count_to", count_to, proxytype=managers.IteratorProxy)


class Yard(managers.AsyncManager):
    """The same, without waiting."""


Yard.register("Engine", Engine)
Yard.register("Gate", Gate)
Yard.register("Built", create_method=False)
Yard.register("Garage", Garage, method_to_typeid={"build": "Built"})
