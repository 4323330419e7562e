"""What sources say, in short, and how it is kept."""

from __future__ import annotations

from typing import Any

import msgspec

from fibernb.core.messages import Display, Output
from fibernb.notebook.grouping import Rich
from fibernb.notebook.source_output import display_size


def text(written: str, stream: str = "stdout", *, task: int = 1, rank: int = 0) -> Output:
    return Output(task=task, rank=rank, sequence=0, stream=stream, text=written)


def display(
    kind: str = "display", display_id: str | None = None, *, task: int = 1, rank: int = 0, **data: Any
) -> Display:
    content = {"data": data, "metadata": {}, "transient": {"display_id": display_id} if display_id else {}}
    return Display(task=task, rank=rank, sequence=0, kind=kind, content=msgspec.json.encode(content))


def clear(*, wait: bool) -> Display:
    return Display(task=1, rank=0, sequence=0, kind="clear", content=msgspec.json.encode({"wait": wait}))


def rich(display_id: str | None = None, **data: Any) -> Rich:
    return Rich(msgspec.json.encode({"data": data, "metadata": {}}), display_id, size_bytes=display_size(data))
