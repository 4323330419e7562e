"""Runs the tests of the core, and fails unless every module of it is covered by the test file that bears its name.

    python -m tests.core.own_coverage

Branches count too. What runs when the core is imported counts for every module; all else counts only where it runs
for the module's own file, whatever other files make run.
"""

from __future__ import annotations

import importlib
import io
import pkgutil
import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import coverage
import pytest

TESTS: Final = Path(__file__).parent
PACKAGE: Final = "fibernb.core"
OF_ALL: Final = ""  # the name of the context of what runs for no file


class ByFile:
    """A plugin of pytest that measures every test file on its own."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        return (yield from self._count_for(collector))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._count_for(item))

    def _count_for(self, node: pytest.Item | pytest.Collector) -> Generator[None, Any, Any]:
        self._measured.switch_context(node.path.name)
        try:
            return (yield)
        finally:
            self._measured.switch_context(OF_ALL)


def main() -> int:
    measured = coverage.Coverage(data_file=None, branch=True, source_pkgs=[PACKAGE])
    measured.start()
    modules = import_all()
    status = pytest.main(["-p", "no:cacheprovider", str(TESTS)], plugins=[ByFile(measured)])
    measured.stop()
    problems = [problem for name, file in modules.items() if (problem := problem_of(measured, name, file))]
    print(f"own coverage: {len(modules) - len(problems)} of {len(modules)} modules of {PACKAGE}", *problems, sep="\n")
    return int(status) or bool(problems)


def import_all() -> dict[str, str]:
    """The files of the core's modules, by their names, once all are imported."""
    core = importlib.import_module(PACKAGE)
    names = sorted(found.name for found in pkgutil.iter_modules(core.__path__))
    return {name: str(importlib.import_module(f"{PACKAGE}.{name}").__file__) for name in names}


def problem_of(measured: coverage.Coverage, name: str, file: str) -> str:
    """What the own test file of a module does not cover; empty if there is nothing."""
    own = TESTS / f"test_{name}.py"
    if not own.exists():
        return f"{name}: there is no {own.name}"
    report = io.StringIO()
    contexts = [f"^{OF_ALL}$", f"^{re.escape(own.name)}$"]
    covered = measured.report(morfs=[file], contexts=contexts, show_missing=True, file=report)
    return "" if covered == 100 else report.getvalue()


if __name__ == "__main__":
    sys.exit(main())
