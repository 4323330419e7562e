"""Keeps the user's own modules fresh: one whose file has changed is loaded again before the next call runs.

Only modules beside the user's work are looked after: not those of Python, of installed packages, or of FiberNB.
"""

from __future__ import annotations

import contextlib
import os
import site
import sys
import sysconfig
import weakref
from importlib.util import cache_from_source
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

from IPython.extensions.autoreload import superreload

Stamp: TypeAlias = tuple[int, int]
"""Time of the last change in nanoseconds, and size in bytes."""

SLACK: Final = 16  # modules that were imported again after they had been looked at

_PLACES: Final = (
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    *site.getsitepackages(),
    site.getusersitepackages(),
    str(Path(__file__).parents[1]),
)
_FOLDERS_OF_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})  # of other environments as well
_INSTALLED: Final = tuple({f"{path}{os.sep}" for place in _PLACES for path in (place, os.path.realpath(place))})


class LocalModules:
    """The user's modules that this process has imported, and how their files looked then."""

    def __init__(self) -> None:
        self._stamps: dict[str, tuple[str, Stamp]] = {}  # by name of the module: its file, and the file's stamp
        self._seen: set[str] = set()  # names of all modules that have been looked at
        self._count = 0  # how many modules there were then
        self._superseded: dict[tuple[str, str], list[weakref.ref[object]]] = {}  # what others may still hold

    def refresh(self) -> list[str]:
        """Load modules again whose files have changed: their names.

        Functions and classes that were imported from them before are brought up to date in place. Raises what the new
        source raises; it is then tried again the next time, so that no stale code runs.
        """
        if len(sys.modules) != self._count:
            self._note()
        changed = [name for name, (path, stamp) in self._stamps.items() if stamp_of(path) not in (None, stamp)]
        for name in changed:
            self._reload(name)
        return changed

    def note(self) -> None:
        """See what has been imported since the last time. Soon after the import: the file may be edited at any time."""
        if len(sys.modules) != self._count:
            self._note()

    def _note(self) -> None:
        for name in self._newcomers():
            path = source_of(sys.modules.get(name))
            stamp = None if path is None else stamp_of(path)
            if path is not None and stamp is not None:
                self._stamps[name] = path, stamp
            self._seen.add(name)
        self._count = len(sys.modules)

    def _newcomers(self) -> list[str]:
        """Names that have not been looked at. They stand last; the others are not touched, being shared memory."""
        added = max(0, len(sys.modules) - self._count)
        try:
            return [name for name in islice(reversed(sys.modules), added + SLACK) if name not in self._seen]
        except RuntimeError:  # another thread imports something just now
            return list(sys.modules.keys() - self._seen)

    def _reload(self, name: str) -> None:
        path, _ = self._stamps[name]
        stamp = stamp_of(path)
        module = sys.modules.get(name)
        if module is not None:
            with contextlib.suppress(OSError, NotImplementedError):
                os.unlink(cache_from_source(path))  # passes for fresh if the size and the second are the same
            superreload(module, old_objects=self._superseded)
        if stamp is not None:
            self._stamps[name] = path, stamp


def source_of(module: object) -> str | None:
    """The file of a module of the user's own; None for any other, and for what only stands for a module."""
    known = vars(module) if isinstance(module, ModuleType) else {}
    path = known.get("__file__")
    if not isinstance(path, str) or not path.endswith(".py") or known.get("__spec__") is None:
        return None
    return None if _is_installed(path) or _is_installed(os.path.realpath(path)) else path


def _is_installed(path: str) -> bool:
    return path.startswith(_INSTALLED) or not _FOLDERS_OF_PACKAGES.isdisjoint(Path(path).parts)


def stamp_of(path: str) -> Stamp | None:
    """How a file looks now; None while it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
