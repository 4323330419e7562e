"""One set of globals for all functions of a module that come to a process by value.

Functions of a script or a notebook travel in pickles of their own: the initializer of a pool in one, the functions that
it prepares in others. In the library they share the globals of the module that a child has inherited or imported. So
they do here: the first that comes brings the globals that it reads, and what the process does to them is seen by all.
A later one brings again only what its owner has bound anew meanwhile, as a notebook does that defines a helper again.
"""

from __future__ import annotations

import os
import sys
import types
import weakref
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Globals = dict[str, Any]


class Origin(NamedTuple):
    """A module of a process that sends its functions by value."""

    process: str
    module: str


class Table:
    """The globals of a module of another process, and which binding of its owner each of them was."""

    __slots__ = ("globals", "origin", "versions")

    def __init__(self, origin: Origin, facts: Mapping[str, Any]) -> None:
        self.origin = origin
        self.globals: Globals = dict(facts)
        self.versions: dict[str, int] = {}

    def bring(self, values: Mapping[str, Any], versions: Mapping[str, int]) -> None:
        """Take over what is new, and what the owner has bound anew since."""
        for name, version in versions.items():
            known = self.versions.get(name, 0)
            if version > known and (known or name not in self.globals):
                self.globals[name] = values[name]
            self.versions[name] = max(version, known)


class Shared:
    """Stands in a pickle for the globals of a function. ``facts``: what every module has, such as its name."""

    __slots__ = ("facts", "origin")

    def __init__(self, origin: Origin, facts: Globals) -> None:
        self.origin = origin
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        return globals_of, (self.origin, self.facts)


class _Process:
    """What this process knows. A forked child sends as a process of its own, and keeps what has come."""

    def __init__(self) -> None:
        self.tables: dict[Origin, Table] = {}
        self.by_globals: dict[int, Table] = {}  # by the identity of their globals, which live as long as this
        self.begin()

    def begin(self) -> None:
        self.name = ""
        self.sent: dict[str, dict[str, tuple[Any, int]]] = {}  # by module: what was bound to a name, and how often anew

    def origin(self, module: str) -> Origin:
        self.name = self.name or os.urandom(8).hex()
        return Origin(self.name, module)


_here: Final = _Process()
os.register_at_fork(after_in_child=_here.begin)


def origin_of(function: types.FunctionType) -> Origin | None:
    """Where the globals of a function belong; None if they are not those of a module."""
    table = _here.by_globals.get(id(function.__globals__))
    if table is not None:
        return table.origin
    name = function.__globals__.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return _here.origin(module.__name__) if module and vars(module) is function.__globals__ else None


def versions_of(origin: Origin, values: Mapping[str, Any]) -> dict[str, int]:
    """How often the names have been bound anew, as far as has been seen when functions were sent."""
    table = _here.tables.get(origin)
    if table is not None:
        return {name: table.versions.get(name, 1) for name in values}
    sent = _here.sent.setdefault(origin.module, {})
    for name, value in values.items():
        last, version = sent.get(name, (None, 0))
        if not version or _target(last) is not value:
            sent[name] = _weakly(value), version + 1
    return {name: sent[name][1] for name in values}


def globals_of(origin: Origin, facts: Globals) -> Globals:
    """Called while unpickling. A function that comes back to where it was defined has globals of its own."""
    if origin == _here.origin(origin.module):
        return facts
    table = _here.tables.get(origin)
    if table is None:
        table = _here.tables[origin] = Table(origin, facts)
        _here.by_globals[id(table.globals)] = table
    return table.globals


def bring(function: types.FunctionType, values: Globals, versions: Mapping[str, int]) -> None:
    """Give a function that has just been made the globals that travelled with it."""
    table = _here.by_globals.get(id(function.__globals__))
    if table is None:
        function.__globals__.update(values)
    else:
        table.bring(values, versions)


def _weakly(value: Any) -> Any:
    """The value, or what does not keep it alive."""
    try:
        return weakref.ref(value)
    except TypeError:
        return value


def _target(kept: Any) -> Any:
    return kept() if isinstance(kept, weakref.ref) else kept
