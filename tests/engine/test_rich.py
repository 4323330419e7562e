"""What displays of an engine become."""

from __future__ import annotations

from typing import Any

import pytest

from fibernb.engine.rich import WIDGET, EngineDisplayPublisher


@pytest.fixture
def reported() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def publisher(reported: list[tuple[str, dict[str, Any]]]) -> EngineDisplayPublisher:
    made = EngineDisplayPublisher()  # type: ignore[no-untyped-call]
    made.report = lambda kind, content: reported.append((kind, content))
    return made


def test_displays_updates_and_clearing(
    publisher: EngineDisplayPublisher, reported: list[tuple[str, dict[str, Any]]]
) -> None:
    data = {"text/html": "<b>x</b>"}
    publisher.publish(data, {"isolated": True}, transient={"display_id": "d"})
    publisher.publish(data, update=True)
    publisher.clear_output(wait=True)
    assert reported == [
        ("display", {"data": data, "metadata": {"isolated": True}, "transient": {"display_id": "d"}}),
        ("update", {"data": data, "metadata": {}, "transient": {}}),
        ("clear", {"wait": True}),
    ]


def test_a_widget_is_shown_as_text(
    publisher: EngineDisplayPublisher, reported: list[tuple[str, dict[str, Any]]]
) -> None:
    publisher.publish({"text/plain": "IntSlider(value=0)", WIDGET: {"model_id": "m"}})
    publisher.publish({WIDGET: {"model_id": "m"}})
    first, second = (content["data"] for _, content in reported)
    assert first == {"text/plain": "IntSlider(value=0)"}
    assert "cannot be shown" in second["text/plain"]


def test_without_a_reporter_nothing_is_shown() -> None:
    publisher = EngineDisplayPublisher()  # type: ignore[no-untyped-call]
    publisher.publish({"text/plain": "x"})
    publisher.clear_output()
