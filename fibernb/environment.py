"""Which environment variables engines get: an allow-list, so that a notebook's tokens stay with the notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

ALLOWED: Final = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "PYTHON*",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "CONDA_*",
    "OMP_*",
    "MKL_*",
    "OPENBLAS_*",
    "CUDA_*",
    "FIBERNB_*",
)
NEVER: Final = ("JUPYTERHUB_*", "JPY_*")  # not even when somebody asks for them


def allowed(environ: Mapping[str, str], passthrough: Iterable[str] = ()) -> dict[str, str]:
    """The variables that engines get; ``passthrough`` names more of them, ``*`` standing for any characters."""
    patterns = (*ALLOWED, *passthrough)
    return {name: value for name, value in environ.items() if _matches(name, patterns) and not _matches(name, NEVER)}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
