"""Plays test modules of CPython's standard library with another module in the place of the one that they test.

A played module stands under a name of ours, so that engines import it too. Its source, and the file name in its
tracebacks, are CPython's own; only what it imports is another: `import multiprocessing.pool` gives it
``fibernb.multiprocessing.pool``.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

REPLACED: Final = "multiprocessing"
TARGET: Final = os.environ.get("CPYTHON_SUITE_TARGET", "fibernb.multiprocessing")
"""What stands in multiprocessing's place. Set to ``multiprocessing``, the adapter is tried on the library itself."""

INTERNALS: Final = frozenset(
    {"forkserver", "popen_fork", "popen_forkserver", "popen_spawn_posix", "resource_sharer", "resource_tracker"}
)
"""Modules of multiprocessing that only make its own start methods work: a replacement need not have them."""


PRIVATE: Final = {"process": ("_cleanup", "_dangling")}
"""Names by submodule that the fixtures of the tests use, of bookkeeping that a replacement shares with the library."""

SCRIPTS: Final = {
    "from test._test_multiprocessing import": "from tests.cpython.library import",
    "from concurrent.futures import Executor": "from fibernb import Executor",
    "from test.test_concurrent_futures.test_shutdown import": "from tests.cpython.futures_library import",
    "from test.test_concurrent_futures import": "from tests.cpython.futures_library import",
}
"""What scripts import, and what they get, besides multiprocessing."""


class MissingSuite(Exception):
    """This interpreter comes without that part of its test package."""


def find_source(module: str) -> Path:
    """The source file of a module of CPython's test package: this interpreter's own, or else the system's.

    Raises `MissingSuite`, which says what to install.
    """
    *_, name = module.split(".")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    spec = importlib.util.find_spec("test")
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    for place in [*places, f"/usr/lib/python{version}/test"]:
        file = Path(place, *module.split(".")[1:-1], f"{name}.py")
        if file.exists():
            return file
    raise MissingSuite(f"{module} is missing from Python {version}; on Debian, install libpython{version}-testsuite")


def play(module: str, namespace: dict[str, Any]) -> None:
    """Run the source of a test module in a namespace, whose imports of multiprocessing are redirected from then on."""
    file = find_source(module)
    _lend_private_names()
    namespace["__file__"] = str(file)
    namespace["__builtins__"] = {**vars(builtins), "__import__": redirected_import}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), namespace)
    namespace["subprocess"] = RewrittenScripts()


def redirected_import(
    name: str,
    namespace: Any = None,
    local_names: Any = None,
    wanted: Any = (),
    level: int = 0,
) -> ModuleType:
    """`__import__`, where ``multiprocessing`` means `TARGET`."""
    head, _, rest = name.partition(".")
    if head != REPLACED or level:
        return builtins.__import__(name, namespace, local_names, wanted, level)
    package = importlib.import_module(TARGET)
    if rest:
        found = importlib.import_module(home_of(rest))
        setattr(package, rest, found)
        return found if wanted else package
    for part in wanted or ():
        if not hasattr(package, part):
            _adopt(package, part)
    return package


def home_of(submodule: str) -> str:
    """The full name of a submodule of multiprocessing, in its replacement."""
    if not submodule:
        return TARGET
    return f"{REPLACED if submodule in INTERNALS else TARGET}.{submodule}"


def rewritten(code: str) -> str:
    """The code of a script that a test runs, with what it imports redirected."""
    for old, new in SCRIPTS.items():
        code = code.replace(old, new)
    return code.replace(REPLACED, TARGET) if TARGET != REPLACED and TARGET not in code else code


class RewrittenScripts:
    """`subprocess`, where the scripts of Python that it runs are `rewritten`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def Popen(self, arguments: list[str], **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen([rewritten(text) for text in arguments], **options)


def rewrite_file(argument: str) -> None:
    """Redirect what a script imports, if the argument names one that a test has written into its directory."""
    if argument in os.listdir():
        file = Path(argument)
        file.write_text(rewritten(file.read_text()))


def _lend_private_names() -> None:
    for submodule, names in PRIVATE.items():
        original, replacement = (importlib.import_module(f"{package}.{submodule}") for package in (REPLACED, TARGET))
        for name in names:
            if not hasattr(replacement, name):
                setattr(replacement, name, getattr(original, name))


def _adopt(package: ModuleType, name: str) -> None:
    """Import a submodule that ``from package import name`` asks for; what is not there stays missing."""
    if importlib.util.find_spec(f"{REPLACED}.{name}") is not None:
        setattr(package, name, importlib.import_module(home_of(name)))
