"""What a client has engines do, besides user functions: run cells, and look after the namespace.

Ordinary functions, pickled by reference and sent as tasks that are pinned to ranks. They import no more than the client
needs anyway; what they work with comes from `fibernb.engine.context`.
"""

from __future__ import annotations

import os
import reprlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fibernb import serialize
from fibernb.engine.context import CellContext, EngineContext, current
from fibernb.errors import ClusterError, ObjectLost, SerializationError, annotate

__all__ = [
    "CellContext",
    "adopt",
    "get_names",
    "load_names",
    "run_cell",
    "run_imports",
    "run_item",
    "set_names",
]

OWN_NAMES: Final = ("rank", "size", "ranks")  # set for every cell
SHORT_CHARACTERS: Final = 120  # of an item, where an error tells which one it was

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = SHORT_CHARACTERS


def run_cell(source: str, cell: CellContext) -> Any:
    """Run a cell's body, as IPython would; the value of its last expression, or None.

    A value that cannot be pickled comes back as a `fibernb.serialize.Unpicklable` with its repr.
    """
    engine = _engine()
    engine.cell_task = engine.task
    try:
        return _run(engine, source, cell)
    finally:
        on_end, engine.on_cell_end = engine.on_cell_end, None
        if on_end is not None:
            on_end()


def run_item(source: str, name: str, item: Any, cell: CellContext) -> Any:
    """As `run_cell`, with ``name`` standing for one item of a ``--each``; several names, with commas, for its parts.

    What the body raises gets a note with the item, in short.
    """
    engine = _engine()
    engine.cells.namespace.update(_bound(name, item))
    try:
        return _run(engine, source, cell)
    except Exception as error:
        annotate(error, f"{name} = {_in_short(item)}")
        raise


def set_names(values: Mapping[str, bytes]) -> None:
    """Set names of the engine's namespace to pickled values. All are set, or none.

    A key may be several names, with blanks between them: their values stand together in one dict.
    Arrays in them can be changed. Those in the object store are shared with other engines up to the page that is
    written to: so a large one is there once a host, and is nevertheless each engine's own.
    """
    engine = _engine()
    engine.cells.namespace.update(load_names(engine, values))


def get_names(names: Sequence[str]) -> list[Any]:
    """Values of names, in that order. Raises `NameError` when there is one that the engine does not have."""
    engine = _engine()
    _require(engine, names)
    return [engine.cells.namespace[name] for name in names]


def adopt(cwd: str, path: Sequence[str], keeps_errors: bool = False) -> None:
    """Work in the notebook's directory, with its ``sys.path`` ahead of our own, as far as this host has them.

    What a runtime environment has brought stays as it is. ``keeps_errors``: those of tasks are kept for a debugger.
    """
    engine = _engine()
    engine.errors.keeps_tasks |= keeps_errors
    if os.path.isdir(cwd) and not engine.has_own_directory:
        os.chdir(cwd)
    present = [entry for entry in path if not entry or os.path.exists(entry)]
    sys.path[:] = dict.fromkeys([*engine.paths, *present, *sys.path])


def run_imports(source: str) -> None:
    """Run import statements in the engine's namespace."""
    exec(compile(source, "<imports>", "exec", dont_inherit=True), _engine().cells.namespace)


def _engine() -> EngineContext:
    engine = current()
    if engine is None:
        raise ClusterError("this is a function of engines: it cannot be called in another process")
    return engine


def _bound(name: str, item: Any) -> dict[str, Any]:
    names = name.split(",")
    if len(names) == 1:
        return {name: item}
    try:
        return dict(zip(names, item, strict=True))
    except (TypeError, ValueError):
        raise ValueError(f"--each {name}: this item does not have {len(names)} parts: {_in_short(item)}") from None


def _in_short(item: Any) -> str:
    words = " ".join(_SHORT.repr(item).split())
    return words if len(words) <= SHORT_CHARACTERS else f"{words[:SHORT_CHARACTERS]}…"


def _run(engine: EngineContext, source: str, cell: CellContext) -> serialize.Pickled:
    _enter(engine, cell)
    return _pickled(engine.cells.run(source, cell, engine.task))


def _enter(engine: EngineContext, cell: CellContext) -> None:
    engine.cell = cell
    own = {"rank": engine.rank, "size": cell.size, "ranks": cell.ranks}
    engine.cells.namespace.update((name, own[name]) for name in OWN_NAMES if name not in cell.pushed)


def _pickled(value: Any) -> serialize.Pickled:
    """A cell's value; one that cannot be pickled is replaced by its repr: the cell has run, after all."""
    try:
        return serialize.Pickled(serialize.dumps(value))
    except SerializationError as error:
        if error.__cause__ is error:  # the value's own word: it stands for one that the notebook could not send
            raise
        return serialize.Pickled(serialize.dumps(serialize.Unpicklable.of(value, error)))


def load_names(engine: EngineContext, values: Mapping[str, bytes]) -> dict[str, Any]:
    """Values by name, as `set_names` takes them. Raises what unpickling them raises, and `ObjectLost`."""
    loaded: dict[str, Any] = {}
    for names, data in values.items():
        value = _load(engine, names, data)
        loaded.update(value if " " in names else {names: value})
    return loaded


def _load(engine: EngineContext, name: str, data: bytes) -> Any:
    try:
        return serialize.loads(data, engine.names_from)
    except serialize.BlockGone as error:
        raise ObjectLost(
            f"{name!r} was in the object store of this host, which has lost it: run the cell again, or push it again"
        ) from error
    except Exception as error:
        annotate(error, f"while loading the pushed name {name!r} on the engine")
        raise


def _require(engine: EngineContext, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in engine.cells.namespace]
    if missing:
        raise NameError(f"rank {engine.rank} has no name {', '.join(map(repr, missing))}")
