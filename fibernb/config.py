"""One frozen configuration, read once at the edges and passed down.

`load` looks at, first found wins: arguments, ``FIBERNB_*`` variables, ``fibernb.toml`` in the working directory, in the
user's configuration directories, then in Jupyter's configuration paths down to ``/etc``; then come the defaults. Files
at the system's places are the administrator's: what they list under ``locked`` cannot be changed by what comes before.
"""

from __future__ import annotations

import difflib
import math
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from fibernb.errors import ConfigError
from fibernb.model import Struct

FILE_NAME: Final = "fibernb.toml"
SAVED_NAME: Final = "config.json"
PREFIX: Final = "FIBERNB_"
SYSTEM_DIRECTORIES: Final = (  # Jupyter's, as jupyter_core.paths has them, and our own
    Path(sys.prefix, "etc/jupyter"),
    Path("/usr/local/etc/jupyter"),
    Path("/etc/jupyter"),
    Path("/etc/fibernb"),
)

Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A(|[A-Za-z0-9][A-Za-z0-9_.-]{0,63})\Z")]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=2.0**63)]


class Config(Struct, frozen=True, kw_only=True):
    """Settings of a cluster and of its clients. Times are in seconds, sizes in bytes."""

    name: Name = ""  # of the cluster; empty: one is made up
    backend: str = "local"
    workers: Count | None = None  # seats of a cluster that starts by itself; None: one a core
    transport: Literal["unix", "zmq"] = "unix"
    runtime_dir: str = ""  # empty: $XDG_RUNTIME_DIR/fibernb, else fibernb-UID in the temporary directory
    lease_s: Seconds = 60.0
    interrupt_grace_s: Seconds = 3.0
    start_timeout_s: Seconds = 60.0
    max_workers: Count | None = None  # the administrator's cap
    preload: tuple[str, ...] = ("numpy",)  # imported once a node, before forking, where installed
    env_passthrough: tuple[str, ...] = ()  # names (or NAME* patterns) of variables that engines get besides the usual
    output_limit_lines: Count = 1000  # what a cell keeps in the notebook
    output_limit_bytes: Count = 1_000_000
    progress: bool = True  # live views
    store_bytes: Count | None = None  # shared memory for large values; None: 30 % of what this host gives us
    store_dir: str = ""  # where that memory is a file; empty: memory without one
    spill_dir: str = ""  # where values go that do not fit; empty: a place on disk is looked for
    spill_bytes: Count | None = None  # the most of them, exchanges aside; None: half of what is free there
    inline_bytes: Count = 100_000  # values whose buffers are larger go into shared memory
    memory_fraction: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = (
        0.95  # of memory in use at which a task is stopped
    )
    resources: dict[str, Amount] = {}  # custom ones of this host, and "gpus", "memory"
    locked: tuple[str, ...] = ()  # keys that the administrator does not let be changed


DEFAULTS: Final = Config()


class Setting(Struct, frozen=True, kw_only=True):
    """One line of `describe`."""

    key: str
    value: object
    source: str  # "default", a file, a variable, or "set here"
    accepts: str
    locked_by: str = ""  # the administrator's file that fixes it


def load(
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Config:
    """The configuration that holds in ``directory`` (default: the working directory).

    Parameters
    ----------
    overrides : arguments of the caller, by key; those that are None say nothing.
    environ : environment variables, default those of this process.

    Raises `ConfigError` for a key that does not exist, a value that does not fit, a file that cannot be read, or a key
    that the administrator has locked.
    """
    return _read(overrides or {}, os.environ if environ is None else environ, directory or Path.cwd()).config()


def describe(
    config: Config | None = None, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> list[Setting]:
    """Every key with its value and where the value came from, for people to read."""
    reading = _read({}, os.environ if environ is None else environ, directory or Path.cwd())
    shown = config or reading.config()
    return [reading.setting(key, getattr(shown, key)) for key in KEYS if key != "locked"]


def with_changes(
    config: Config,
    key: str,
    value_text: str,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Config:
    """``config`` with one key set from text, as in ``%fiber config lease_s=120``.

    Raises `ConfigError` as `load` does.
    """
    value = _parse(key, value_text, f"{key}={value_text}")
    reading = _read({}, os.environ if environ is None else environ, directory or Path.cwd())
    reading.take({key: _Entry(value, f"{key}={value_text}")})
    return _checked_as_a_whole(msgspec.structs.replace(config, **{key: value}))


def save(config: Config, directory: Path) -> None:
    """Keep the configuration of a cluster in its runtime directory, for its hub and node processes."""
    target = directory / SAVED_NAME
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(msgspec.json.encode(config))


def saved(directory: Path) -> Config:
    """The configuration that `save` kept. Raises `ConfigError` when there is none that can be read."""
    try:
        return msgspec.json.decode((directory / SAVED_NAME).read_bytes(), type=Config)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{directory / SAVED_NAME} does not hold a cluster's configuration: {error}") from error


# ---- keys and their values -----------------------------------------------------------------------------


def _optional_count(text: str) -> int | None:
    return None if text.strip().lower() in ("", "none") else int(text)


def _switch(text: str) -> bool:
    return {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}[
        text.strip().lower()
    ]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _amounts(text: str) -> dict[str, float]:
    return {name.strip(): float(amount) for name, amount in (pair.split("=") for pair in _words(text))}


class Key(NamedTuple):
    accepts: str  # for people
    parse: Callable[[str], object]  # from a variable or a command line


_SECONDS: Final = Key("a number of seconds, 0 or more", float)
_OPTIONAL: Final = Key("a whole number of seats, 0 or more, or none", _optional_count)
_COUNT: Final = Key("a whole number, 0 or more", int)

KEYS: Final[dict[str, Key]] = {
    "name": Key("letters, digits, '_', '.' and '-', at most 64, the first one a letter or digit", str),
    "backend": Key("the name of a backend, such as local", str),
    "workers": _OPTIONAL,
    "transport": Key("unix or zmq", str),
    "runtime_dir": Key("the path of a directory", str),
    "lease_s": _SECONDS,
    "interrupt_grace_s": _SECONDS,
    "start_timeout_s": _SECONDS,
    "max_workers": _OPTIONAL,
    "preload": Key("names of modules (as text: separated by commas)", _words),
    "env_passthrough": Key("names of environment variables, or NAME* patterns (as text: separated by commas)", _words),
    "output_limit_lines": _COUNT,
    "output_limit_bytes": _COUNT,
    "progress": Key("true or false", _switch),
    "store_bytes": Key("a number of bytes, or none", _optional_count),
    "store_dir": Key("the path of a directory", str),
    "spill_dir": Key("the path of a directory", str),
    "spill_bytes": Key("a number of bytes, or none", _optional_count),
    "inline_bytes": Key("a number of bytes, 0 or more", int),
    "memory_fraction": Key("a number from 0 to 1; 1 turns the watch off", float),
    "resources": Key("names with amounts, 0 or more (as text: gpus=1,memory=8e9)", _amounts),
    "locked": Key("names of keys, in an administrator's file only", _words),
}

_TYPES: Final = {field.name: field.type for field in msgspec.structs.fields(Config)}


def _known(key: str, source: str) -> Key:
    found = KEYS.get(key)
    if found is None:
        raise ConfigError(f"{source}: there is no key {key!r}. {_nearest(key)}")
    return found


def _nearest(key: str) -> str:
    close = difflib.get_close_matches(key, KEYS, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"The keys are: {', '.join(KEYS)}."


def _parse(key: str, text: str, source: str) -> object:
    known = _known(key, source)
    try:
        value = known.parse(text)
    except (ValueError, KeyError) as error:
        raise _misfit(key, text, source) from error
    return _checked(key, value, source)


def _checked(key: str, value: object, source: str) -> object:
    """The value in the type of its key; ints count as floats, lists as tuples."""
    _known(key, source)
    try:
        result: object = msgspec.convert(value, _TYPES[key])
    except (msgspec.ValidationError, TypeError, OverflowError) as error:
        raise _misfit(key, value, source) from error
    if any(isinstance(number, float) and not math.isfinite(number) for number in _numbers(result)):
        raise _misfit(key, value, source)
    return result


def _numbers(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else [value]


def _misfit(key: str, value: object, source: str) -> ConfigError:
    return ConfigError(f"{source}: {key} cannot be {value!r}. It accepts {KEYS[key].accepts}.")


def _checked_as_a_whole(config: Config) -> Config:
    cap = config.max_workers
    if cap is not None and config.workers is not None and config.workers > cap:
        raise ConfigError(f"workers is {config.workers}, but max_workers allows {cap}: ask for {cap} or fewer")
    return config


# ---- where values come from -----------------------------------------------------------------------------


class _Entry(NamedTuple):
    value: object
    source: str


class _Reading:
    """The values found so far, from the weakest source to the strongest, and what administrators have locked."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._locks: dict[str, str] = {}  # key to the file that locks it

    def take(self, entries: Mapping[str, _Entry], administrator: str = "") -> None:
        for key, entry in entries.items():
            if key == "locked":
                self._refuse_lock(entry, administrator)
                continue
            self._refuse_change(key, entry)
            self._entries[key] = entry
        self._lock(entries.get("locked"), administrator)

    def config(self) -> Config:
        values: dict[str, Any] = {key: entry.value for key, entry in self._entries.items()}
        return _checked_as_a_whole(Config(**values, locked=tuple(sorted(self._locks))))

    def setting(self, key: str, value: object) -> Setting:
        entry = self._current(key)
        source = entry.source if entry.value == value else "set here"
        return Setting(
            key=key, value=value, source=source, accepts=KEYS[key].accepts, locked_by=self._locks.get(key, "")
        )

    def _current(self, key: str) -> _Entry:
        return self._entries.get(key) or _Entry(getattr(DEFAULTS, key), "default")

    def _refuse_change(self, key: str, entry: _Entry) -> None:
        locker = self._locks.get(key)
        if locker is not None and entry.value != self._current(key).value:
            raise ConfigError(
                f"{entry.source}: {key} is locked at {self._current(key).value!r} by the administrator in {locker}; "
                f"leave it out, or ask the administrator"
            )

    def _refuse_lock(self, entry: _Entry, administrator: str) -> None:
        if not administrator:
            raise ConfigError(f"{entry.source}: only an administrator's file can lock keys; leave 'locked' out")

    def _lock(self, entry: _Entry | None, administrator: str) -> None:
        keys = entry.value if entry is not None else ()
        assert isinstance(keys, tuple)
        for key in keys:
            _known(key, f"{administrator}, in locked")
            self._locks.setdefault(key, administrator)


def _read(overrides: Mapping[str, object], environ: Mapping[str, str], directory: Path) -> _Reading:
    reading = _Reading()
    for path in (place / FILE_NAME for place in reversed(SYSTEM_DIRECTORIES)):
        reading.take(_from_file(path), administrator=str(path))
    for path in reversed(_user_files(environ, directory)):
        reading.take(_from_file(path))
    reading.take(dict(_from_variables(environ)))
    reading.take({key: _argument(key, value) for key, value in overrides.items() if value is not None})
    return reading


def _argument(key: str, value: object) -> _Entry:
    return _Entry(_checked(key, value, f"argument {key}"), f"argument {key}")


def _from_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, _Entry]]:
    for variable, text in environ.items():
        key = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and not _is_service_link(variable):
            yield key, _Entry(_parse(key, text, f"variable {variable}"), f"variable {variable}")


def _is_service_link(variable: str) -> bool:
    """Kubernetes describes a service called ``fibernb-...`` to every pod in variables of these shapes."""
    return variable.endswith(("_SERVICE_HOST", "_PORT")) or "_SERVICE_PORT" in variable or "_PORT_" in variable


def _from_file(path: Path) -> dict[str, _Entry]:
    if not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}. Mend or remove it.") from error
    return {key: _Entry(_checked(key, value, str(path)), str(path)) for key, value in content.items()}


def _user_files(environ: Mapping[str, str], directory: Path) -> list[Path]:
    home = Path(environ.get("HOME") or Path.home())
    xdg = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    jupyter = Path(environ.get("JUPYTER_CONFIG_DIR") or home / ".jupyter")
    return [directory / FILE_NAME, xdg / "fibernb" / FILE_NAME, jupyter / FILE_NAME]
