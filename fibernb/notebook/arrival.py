"""What runs on an engine when values of the notebook arrive there that must not replace its own."""

from __future__ import annotations

from collections.abc import Mapping

from fibernb.engine import context, operations


def set_missing_names(values: Mapping[str, bytes]) -> None:
    """Set pickled values under those of the names that the engine does not have."""
    engine = context.current()
    assert engine is not None
    namespace = engine.cells.namespace
    missing = {names: data for names, data in values.items() if not namespace.keys() >= set(names.split())}
    loaded = operations.load_names(engine, missing)
    namespace.update((name, value) for name, value in loaded.items() if name not in namespace)
