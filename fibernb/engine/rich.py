"""Rich displays of an engine's IPython, handed to the engine's reporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from IPython.core.displaypub import DisplayPublisher

Report = Callable[[str, dict[str, Any]], None]

WIDGET: Final = "application/vnd.jupyter.widget-view+json"
"""What a widget of ipywidgets shows itself by: its model is on the engine, where the front end does not look."""


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
            content = {"data": _without_widget(data), "metadata": metadata or {}, "transient": transient or {}}
            self.report("update" if update else "display", content)

    def clear_output(self, wait: bool = False) -> None:
        if self.report is not None:
            self.report("clear", {"wait": wait})


def _without_widget(data: dict[str, Any]) -> dict[str, Any]:
    """The other ways to show it, its text at least."""
    if WIDGET not in data:
        return data
    rest = {kind: value for kind, value in data.items() if kind != WIDGET}
    return rest or {"text/plain": "<a widget: those that cells make on engines cannot be shown in the notebook>"}
