"""Functions by content: the same code has the same digest, whenever it is pickled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

from fibernb.model import Digest
from fibernb.serialize.values import dumps, loads

DIGEST_BYTES: Final = 16


def content_digest(data: bytes) -> Digest:
    """Sixteen bytes that tell two pickles apart."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def dumps_function(function: Callable[..., Any]) -> tuple[Digest, bytes]:
    """Digest and code of a function; both are stable in one process while function, helpers and globals that it reads
    do not change.

    Raises `SerializationError` with the path to what cannot be pickled, such as ``train.globals['lock']``.
    """
    code = dumps(function, getattr(function, "__name__", None) or type(function).__name__)
    return content_digest(code), code


def loads_function(code: bytes) -> Callable[..., Any]:
    """The function of such a code."""
    function: Callable[..., Any] = loads(code)
    return function
