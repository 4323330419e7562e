"""The limits of the operating system that a large pool meets."""

from __future__ import annotations

import contextlib
import resource


def allow_files() -> None:
    """Raise this process's own limit of open files to what the system lets it have: a worker takes some of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS names an infinity that it does not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
