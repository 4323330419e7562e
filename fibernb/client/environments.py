"""Runtime environments: what a task or an actor finds around it, by Ray's ``runtime_env``, checked before it travels.

What travels is JSON with sorted keys, so that equal environments are equal texts and share engines:

- ``env_vars``: names and texts;
- ``working_dir``: the directory to work in, which stands first on ``sys.path``;
- ``py_modules``: directories for ``sys.path``;
- ``pip``: requirement specifiers, one an item; a path is that of a project, a wheel or an archive of this host.

Local directories and files stand for their content when the environment is made: they are packaged
(`fibernb.client.packages`).
"""

from __future__ import annotations

import difflib
import json
import os
import re
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fibernb.client import packages
from fibernb.errors import ConfigError

MISSING: Final[dict[str, str]] = {
    "conda": "name packages under 'pip', or start the cluster from that conda environment",
    "container": "start the cluster inside of that image",
    "image_uri": "start the cluster inside of that image",
    "nsight": "profile with the tool's own command around the cluster",
    "rocprof_sys": "profile with the tool's own command around the cluster",
    "py_executable": "start the cluster with that Python",
    "java_jars": "only Python runs here",
    "mpi": "start one actor for each process",
    "worker_process_setup_hook": "call the function in the task, or in the actor's constructor",
}
IGNORED: Final = ("config", "_ray_release", "_ray_commit", "_inject_current_ray")


def parse(given: Any, name: str = "runtime_env") -> str:
    """A runtime environment as the JSON that travels; empty when it asks for nothing.

    Raises `ConfigError` for keys and values that cannot be, and for directories that do not exist or are too large.
    """
    if given is None:
        return ""
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name} cannot be {given!r:.80}. It accepts a dict such as {{'env_vars': {{'NAME': 'x'}}}}.")
    excludes = _texts(f"{name}['excludes']", given.get("excludes") or ())
    made = {}
    for key, value in given.items():
        if value is None or key in IGNORED or key == "excludes":
            continue
        made.update(_known(name, key)(f"{name}[{key!r}]", value, excludes))
    return _encode({key: value for key, value in made.items() if value})


def check_keys(given: Mapping[str, Any], name: str = "runtime_env") -> None:
    """Raise `ConfigError` for a key that cannot be."""
    for key, value in given.items():
        if value is not None and key not in IGNORED and key != "excludes":
            _known(name, key)


def merged(job: str, own: str) -> str:
    """The environment of a task in a job that has one: its own keys win; variables add up."""
    if not job or not own or job == own:
        return own or job
    first, second = json.loads(job), json.loads(own)
    variables = first.get("env_vars", {}) | second.get("env_vars", {})
    return _encode(first | second | ({"env_vars": variables} if variables else {}))


def described(text: str) -> dict[str, Any]:
    """The environment that a text stands for."""
    return dict(json.loads(text)) if text else {}


def _encode(made: Mapping[str, Any]) -> str:
    return msgspec.json.encode(dict(made), order="sorted").decode() if made else ""


def _known(name: str, key: Any) -> Callable[[str, Any, Sequence[str]], dict[str, Any]]:
    if key in MISSING:
        raise ConfigError(f"{name} with {key!r} is not for FiberNB: {MISSING[key]}")
    if key not in PARSERS:
        close = difflib.get_close_matches(str(key), [*PARSERS, "excludes", *MISSING], n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"The keys are: {', '.join([*PARSERS, 'excludes'])}."
        raise ConfigError(f"{name} has no key {key!r}. {hint}")
    return PARSERS[key]


# ---- keys ---------------------------------------------------------------------------------------------------


def _variables(name: str, value: Any, _: Sequence[str]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} cannot be {value!r:.80}. It accepts a dict of names with texts.")
    for variable, text in value.items():
        if not isinstance(variable, str) or not variable or "=" in variable or "\0" in variable:
            raise ConfigError(f"{name}: an environment variable cannot be called {variable!r}")
        if not isinstance(text, str) or "\0" in text:
            raise ConfigError(f"{name}[{variable!r}] cannot be {text!r:.80}. It accepts a str: {str(text)!r:.80}.")
    return {"env_vars": dict(value)}


def _working_directory(name: str, value: Any, excludes: Sequence[str]) -> dict[str, Any]:
    path = _local_path(name, value)
    if path.suffix == ".zip" and path.is_file():
        return {"working_dir": str(packages.unpack(path, name))}
    if not path.is_dir():
        raise ConfigError(f"{name}: there is no directory {path}")
    return {"working_dir": str(packages.package(path, name, excludes))}


def _modules(name: str, value: Any, excludes: Sequence[str]) -> dict[str, Any]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{name} cannot be {value!r:.80}. It accepts a list of paths of packages, or of modules.")
    return {"py_modules": [_module(f"{name}[{index}]", item, excludes) for index, item in enumerate(value)]}


def _module(name: str, item: Any, excludes: Sequence[str]) -> str:
    path = _module_path(name, item) if isinstance(item, types.ModuleType) else _local_path(name, item)
    if path.suffix in (".whl", ".zip") and path.is_file():
        return str(packages.unpack(path, name))
    if path.is_dir() or (path.suffix == ".py" and path.is_file()):
        return str(packages.package(path, name, excludes, inside=path.name))
    raise ConfigError(f"{name}: there is no package, module or wheel at {path}")


def _module_path(name: str, module: types.ModuleType) -> Path:
    if getattr(module, "__path__", None):
        return Path(next(iter(module.__path__)))
    if module.__file__ is None:
        raise ConfigError(f"{name}: module {module.__name__} has no file; it is built in, and there already")
    return Path(module.__file__)


def _local_path(name: str, value: Any) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise ConfigError(f"{name} cannot be {value!r:.80}. It accepts the path of a local directory.")
    text = os.fspath(value)
    if "://" in text:
        raise ConfigError(f"{name} cannot be {text!r}: fetch it first, and give the path of a local directory")
    return Path(text).expanduser().absolute()


def _requirements(name: str, value: Any, excludes: Sequence[str]) -> dict[str, Any]:
    if isinstance(value, Mapping):
        unknown = set(value) - {"packages", "pip_check", "pip_version", "uv_check", "uv_version", "pip_install_options"}
        if unknown or "packages" not in value:
            raise ConfigError(f"{name} cannot be {value!r:.120}. As a dict it accepts {{'packages': [...]}}.")
        return _requirements(name, value["packages"], excludes)
    if isinstance(value, str | os.PathLike):
        return {"pip": [_requirement(name, line, excludes) for line in _lines_of(name, Path(value).expanduser())]}
    return {"pip": sorted(_requirement(name, item, excludes) for item in _texts(name, value))}


def _requirement(name: str, item: str, excludes: Sequence[str]) -> str:
    """A path as that of a package of its content, so that what has been edited is another requirement."""
    found = _PATH.fullmatch(item)
    if found is None:
        return item
    path, extras = Path(found[1]).expanduser().absolute(), found[2] or ""
    if path.is_dir():
        return f"{packages.package(path, name, excludes)}{extras}"
    if path.is_file():
        return f"{packages.package(path, name, inside=path.name) / path.name}{extras}"
    raise ConfigError(f"{name}: there is no project, wheel or archive at {path}")


def _lines_of(name: str, path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise ConfigError(
            f"{name}: {path} cannot be read ({error.strerror}). Give a requirements file or a list of packages."
        ) from error
    return [line for line in lines if line and not line.startswith("#")]


def _texts(name: str, value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item.strip() for item in value):
        raise ConfigError(f"{name} cannot be {value!r:.80}. It accepts a list of texts.")
    return [item.strip() for item in value]


_PATH: Final = re.compile(r"((?:[./~]|(?!-)[^\s@:;]+/).*?)(\[[^\[\]]*\])?")  # and the extras that are wanted of it

PARSERS: Final[dict[str, Callable[[str, Any, Sequence[str]], dict[str, Any]]]] = {
    "env_vars": _variables,
    "working_dir": _working_directory,
    "py_modules": _modules,
    "pip": _requirements,
    "uv": _requirements,
}
