"""Rich displays of an engine's IPython, handed to the engine's reporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.displaypub import DisplayPublisher

Report = Callable[[str, dict[str, Any]], None]


class EngineDisplayPublisher(DisplayPublisher):
    """What ``display()`` of an engine ends in. ``report`` is set once the engine has a reporter."""

    report: Report | None = None

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        source: object = None,  # noqa: ARG002  as IPython has it
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **kwargs: object,  # noqa: ARG002
    ) -> None:
        if self.report is not None:
            content = {"data": data, "metadata": metadata or {}, "transient": transient or {}}
            self.report("update" if update else "display", content)

    def clear_output(self, wait: bool = False) -> None:
        if self.report is not None:
            self.report("clear", {"wait": wait})
