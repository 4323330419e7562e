"""What a process takes over from its parent before it unpickles what it is: name, paths, arguments, environment."""

from __future__ import annotations

import json
import os
import sys
from multiprocessing import process, spawn, util
from typing import Any

from fibernb.engine.context import EngineContext
from fibernb.engine.devices import VARIABLE
from fibernb.model import Struct
from fibernb.multiprocessing import start_method


class Preparation(Struct, frozen=True, kw_only=True):
    """``log_level`` None: the parent has no logger."""

    name: str
    authkey: bytes
    arguments: list[str]  # sys.argv
    path: list[str]  # sys.path
    directory: str  # to work in; empty: it is gone
    variables: dict[str, str]  # of the environment
    log_level: int | None
    logs_to_stderr: bool
    parent_pid: int
    start_method: str | None


def prepared_for(child: process.BaseProcess) -> Preparation:
    """What this process gives to a child."""
    library: Any = util
    return Preparation(
        name=child.name,
        authkey=bytes(process.current_process().authkey),
        arguments=list(sys.argv),
        path=[entry or _directory() for entry in sys.path],
        directory=_directory(),
        variables=dict(os.environ),
        log_level=None if library._logger is None else library._logger.getEffectiveLevel(),
        logs_to_stderr=bool(library._log_to_stderr),
        parent_pid=os.getpid(),
        start_method=getattr(child, "_start_method", None) or start_method.chosen,
    )


def prepare(given: Preparation, engine: EngineContext) -> None:
    """Make this engine ready to be the child. What its own runtime environment says goes before."""
    os.environ.update({name: text for name, text in given.variables.items() if name not in _own_variables(engine)})
    settings: dict[str, Any] = {
        "name": given.name,
        "authkey": given.authkey,
        "log_to_stderr": given.logs_to_stderr,
        "sys_path": list(dict.fromkeys([*engine.paths, *given.path])),
        "sys_argv": given.arguments,
    }
    if given.log_level is not None:
        settings["log_level"] = given.log_level
    if given.directory and not engine.has_own_directory:
        settings |= {"dir": given.directory, "orig_dir": given.directory}
    spawn.prepare(settings)
    start_method.chosen = given.start_method


def _directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _own_variables(engine: EngineContext) -> set[str]:
    environment: dict[str, Any] = json.loads(engine.environment) if engine.environment else {}
    return {*environment.get("env_vars", ()), *([VARIABLE] if engine.gpus else [])}
