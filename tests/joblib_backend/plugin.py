"""A plugin of pytest that gives joblib's own tests our backend, wherever they go through backends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import joblib.testing

import fibernb.joblib

given = joblib.testing.parametrize


def with_ours(names: Any, values: Iterable[Any], **options: Any) -> Any:
    """joblib's ``parametrize``, with our backend where it has its own for processes."""
    known = list(values)
    if names == "backend" and "loky" in known and fibernb.joblib.NAME not in known:
        known.append(fibernb.joblib.NAME)
    return given(names, known, **options)


fibernb.joblib.register()
joblib.testing.parametrize = with_ours
