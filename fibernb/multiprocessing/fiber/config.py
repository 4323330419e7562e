"""Fiber's configuration: its keys, where they come from, and what they do here.

Sources, the first one that has a key counts: arguments of ``fiber.init`` and what is assigned to ``fiber.config``; the
variables ``FIBER_<KEY>``; the section ``default`` of ``.fiberconfig`` in the working directory. They are read by
``fiber.init``. Processes inherit what is set in the one that starts them.
"""

from __future__ import annotations

import configparser
import difflib
import logging
import os
from collections.abc import Mapping
from multiprocessing import ProcessError, util
from multiprocessing.process import current_process
from pathlib import Path
from typing import Any, Final

import msgspec

from fibernb.client import api
from fibernb.errors import BackendError, ConfigError
from fibernb.multiprocessing import needs

FILE_NAME: Final = ".fiberconfig"
SECTION: Final = "default"
PREFIX: Final = "FIBER_"
STDOUT: Final = "stdout"
TRUE: Final = ("true", "yes", "1")
LEVELS: Final = ("debug", "info", "warning", "error", "critical")


class FiberConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Fiber's keys. Those of the second group are accepted, and change nothing.

    Parameters
    ----------
    backend : where a cluster is started that is not there yet; None: ``default_backend``.
    log_level : of ``multiprocessing.get_logger()``: a number of `logging`, or "debug", "info", ...
    log_file : where that logger writes: "stdout", or the beginning of a path, which the name of the process ends.
    debug : true: log everything.
    cpu_per_job, mem_per_job : cores and MiB that every process needs whose function has no `meta` of its own.
    """

    backend: str | None = None
    default_backend: str = "local"
    log_level: int | None = None
    log_file: str | None = None
    debug: bool = False
    cpu_per_job: int | None = None
    mem_per_job: int | None = None

    image: str | None = None
    default_image: str | None = None
    merge_output: bool = False
    use_bash: bool = False
    use_push_queue: bool = True
    ipc_active: bool = True
    ipc_admin_master_port: int = 0
    ipc_admin_worker_port: int = 8000


KEYS: Final = {field.name: field.type for field in msgspec.structs.fields(FiberConfig)}


class Settings:
    """The configuration of this process: Fiber's ``fiber.config``. Its keys are attributes, to read and to assign."""

    def __getattr__(self, name: str) -> Any:
        if name not in KEYS:
            raise AttributeError(f"Fiber has no key {name!r}. {_nearest(name)}")
        return getattr(self.get_object(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._use({**self.get_dict(), **_checked({name: value}, "fiber.config")})

    def get_object(self) -> FiberConfig:
        """All of it, as it is now."""
        return FiberConfig(**needs.configuration())

    def get_dict(self) -> dict[str, Any]:
        """All of it, as it is now."""
        return msgspec.structs.asdict(self.get_object())

    def init(self, **given: Any) -> list[str]:
        """Read it anew: the keys that have changed."""
        before = self.get_dict()
        self._use(read(given))
        return [key for key, value in self.get_dict().items() if value != before[key]]

    def _use(self, values: Mapping[str, Any]) -> None:
        chosen = FiberConfig(**values)
        _start(chosen.backend)
        needs.configure(values)
        _log(chosen)


config: Final = Settings()


# ---- where values come from --------------------------------------------------------------------------------------


def read(given: Mapping[str, Any], directory: Path | None = None) -> dict[str, Any]:
    """The keys that are set somewhere. Raises `ConfigError` for keys and values that cannot be."""
    path = (directory or Path()) / FILE_NAME
    variables = {key: os.environ[PREFIX + key.upper()] for key in KEYS if os.environ.get(PREFIX + key.upper())}
    return {
        **_checked(_of_file(path), str(path)),
        **_checked(variables, f"a variable {PREFIX}..."),
        **_checked(given, "fiber.init"),
    }


def _of_file(path: Path) -> dict[str, str]:
    parser = configparser.ConfigParser()
    try:
        parser.read(path)
    except configparser.Error as error:
        raise ConfigError(f"{path} cannot be read: {error}. Mend or remove it.") from error
    return dict(parser[SECTION]) if parser.has_section(SECTION) else {}


def _checked(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    return {key: _converted(key, value, source) for key, value in values.items()}


def _converted(key: str, value: Any, source: str) -> Any:
    if key not in KEYS:
        raise ConfigError(f"{source}: Fiber has no key {key!r}. {_nearest(key)}")
    kind = KEYS[key]
    if isinstance(value, str):
        value = _parsed(key, value.strip(), kind)
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {key} cannot be {value!r}: {error}") from error


def _parsed(key: str, text: str, kind: Any) -> Any:
    if key == "log_level" and text.lower() in LEVELS:
        return getattr(logging, text.upper())
    return text.lower() in TRUE if kind is bool else text


def _nearest(key: str) -> str:
    close = difflib.get_close_matches(key, KEYS, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"The keys are: {', '.join(KEYS)}."


# ---- what they do ------------------------------------------------------------------------------------------------


def _start(backend: str | None) -> None:
    """Have a cluster of that backend, if one is named."""
    if backend is None:
        return
    try:
        api.init(backend=backend)
    except BackendError as error:
        raise ProcessError(str(error)) from error


def _log(chosen: FiberConfig) -> None:
    """Let the logger of this process write what it should where it should."""
    if chosen.log_level is None and chosen.log_file is None and not chosen.debug:
        return
    logger = util.get_logger()
    logger.setLevel(logging.DEBUG if chosen.debug else chosen.log_level or logging.INFO)
    for handler in [handler for handler in logger.handlers if handler.name == FILE_NAME]:
        logger.removeHandler(handler)
        handler.close()
    logger.addHandler(_handler(chosen.log_file or STDOUT))


def _handler(target: str) -> logging.Handler:
    made = logging.StreamHandler() if target.lower() == STDOUT else _file_handler(Path(target))
    made.set_name(FILE_NAME)
    made.setFormatter(logging.Formatter(util.DEFAULT_LOGGING_FORMAT))
    return made


def _file_handler(path: Path) -> logging.Handler:
    path.parent.mkdir(parents=True, exist_ok=True)
    return logging.FileHandler(f"{path}.{current_process().name}", mode="w")
