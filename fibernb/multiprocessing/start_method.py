"""Which of the library's start methods this process calls its own. A child takes the name over."""

from __future__ import annotations

chosen: str | None = None  # None: nobody has asked for one, nor for the context of one, yet
