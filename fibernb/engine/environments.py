"""Enters a runtime environment: variables, a directory to work in, modules, and packages of its own.

It comes as JSON that the client has checked: ``env_vars`` (names and texts), ``working_dir`` (a directory),
``py_modules`` (directories for ``sys.path``) and ``pip`` (requirement specifiers).
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from fibernb.engine.installing import install
from fibernb.errors import EnvironmentFailed


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    env_vars: dict[str, str] = {}
    working_dir: str = ""
    py_modules: list[str] = []
    pip: list[str] = []


class Place(NamedTuple):
    """What an environment has made of this process."""

    paths: tuple[str, ...]  # which have been put first on sys.path
    has_own_directory: bool


def enter(text: str) -> Place:
    """Make this process one of that environment.

    Raises `EnvironmentFailed` with what cannot be had, and why.
    """
    try:
        environment = msgspec.json.decode(text, type=Environment)
    except msgspec.DecodeError as error:
        raise EnvironmentFailed(f"runtime environment {text!r:.200} cannot be read: {error}") from error
    paths = [*_directories(environment), *([str(install(environment.pip))] if environment.pip else [])]
    os.environ.update(_expanded(environment.env_vars, os.environ))
    if environment.working_dir:
        os.chdir(environment.working_dir)
    sys.path[:] = dict.fromkeys([*paths, *sys.path])
    importlib.invalidate_caches()
    return Place(tuple(paths), bool(environment.working_dir))


def _directories(environment: Environment) -> list[str]:
    wanted = [*([environment.working_dir] if environment.working_dir else []), *environment.py_modules]
    for path in wanted:
        if not os.path.isdir(path):
            raise EnvironmentFailed(
                f"the runtime environment needs {path}, and there is no such directory on this host: "
                "it may have been removed from the cache; make the task's options anew"
            )
    return wanted


def _expanded(variables: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Values may refer to variables that there are already: ``${PATH}``."""
    return {
        name: re.sub(r"\$\{(\w+)\}", lambda found: known.get(found[1], ""), text) for name, text in variables.items()
    }
