"""Text of users' errors and values, as a front end can be sent it."""

from __future__ import annotations

from typing import Final

MAX_CHARACTERS: Final = 100_000
"""How much of one text is sent: a front end shows no more in any useful way, and a much longer one makes it stand."""


def sendable(text: str) -> str:
    """The text without lone surrogates, and no longer than `MAX_CHARACTERS`."""
    if len(text) > MAX_CHARACTERS:
        half = MAX_CHARACTERS // 2
        text = f"{text[:half]} … {len(text) - 2 * half:,} characters left out … {text[-half:]}"
    return without_surrogates(text)


def without_surrogates(text: str) -> str:
    """The text with lone surrogates, for which messages have no form, written as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
