"""Runtime environments by the name of ``ray.runtime_env``."""

from __future__ import annotations

from typing import Any

from fibernb.client import environments

__all__ = ["RuntimeEnv"]


class RuntimeEnv(dict[str, Any]):
    """What a task or an actor finds around it, as a dict whose keys are checked at once.

    ``RuntimeEnv(env_vars={...}, working_dir="...", py_modules=[...], pip=[...])`` is the same as the plain dict.
    """

    def __init__(self, **given: Any) -> None:
        environments.check_keys(given)
        super().__init__({key: value for key, value in given.items() if value is not None})
