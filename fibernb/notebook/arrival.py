"""What runs on an engine when values of the notebook arrive there that must not replace its own."""

from __future__ import annotations

from collections.abc import Mapping

from fibernb import serialize
from fibernb.engine import context


def set_missing_names(values: Mapping[str, bytes]) -> None:
    """Set pickled values under those of the names that the engine does not have."""
    engine = context.current()
    assert engine is not None
    namespace = engine.cells.namespace
    namespace.update((name, serialize.loads(data)) for name, data in values.items() if name not in namespace)
