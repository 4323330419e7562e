"""Runs some tests of one module in this process, and reports each as it begins and ends.

It is the child of `tests.cpython.runner`.

    python -m tests.cpython.group MODULE REPORT TIMEOUT_S TEST...
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import sys
import time
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from tests.cpython.adapter import rewrite_file, rewritten

MARGIN_S = 2.0  # the stacks are dumped so long before the parent gives up


class Reporter(unittest.TestResult):
    """Writes one line of JSON for every begin and end of a test."""

    def __init__(self, out: TextIO, timeout_s: float) -> None:
        super().__init__()
        self._out = out
        self._timeout_s = timeout_s
        self._outcome: tuple[str, str] = ("passed", "")
        self._begun = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        self._outcome = ("passed", "")
        self._begun = time.monotonic()
        faulthandler.dump_traceback_later(max(1.0, self._timeout_s - MARGIN_S), file=sys.stderr)
        self._say(begin=name_of(test))

    def stopTest(self, test: unittest.TestCase) -> None:
        faulthandler.cancel_dump_traceback_later()
        outcome, detail = self._outcome
        seconds = round(time.monotonic() - self._begun, 3)
        self._say(end=name_of(test), outcome=outcome, detail=detail, seconds=seconds)

    def addError(self, test: Any, err: Any) -> None:
        text = "".join(traceback.format_exception(*err))
        if isinstance(test, unittest.TestCase):
            self._outcome = ("failed", text)
        else:  # a fixture of a class or module
            self._say(fixture=str(test), detail=text)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.addError(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test: Any, reason: str) -> None:
        if isinstance(test, unittest.TestCase):
            self._outcome = ("skipped", reason)
        else:
            self._say(fixture=str(test), detail=f"skipped: {reason}")

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        pass

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._outcome = ("failed", "it was expected to fail")

    def _say(self, **line: Any) -> None:
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()


def name_of(test: unittest.TestCase) -> str:
    """``Class.test``."""
    return f"{type(test).__name__}.{test.id().rpartition('.')[2]}"


def tests_of(module: Any) -> Iterator[str]:
    """The names of all tests of a module."""
    pending: list[Any] = [unittest.defaultTestLoader.loadTestsFromModule(module)]
    while pending:
        item = pending.pop()
        if isinstance(item, unittest.TestSuite):
            pending.extend(item)
        else:
            yield name_of(item)


def redirect_scripts() -> None:
    """Scripts that tests run in an interpreter of their own import our module too."""
    from test.support import script_helper

    def redirect(run: Any) -> Any:
        def run_rewritten(*arguments: Any, **options: Any) -> Any:
            for text in arguments:
                rewrite_file(text)
            return run(*(rewritten(text) if isinstance(text, str) else text for text in arguments), **options)

        return run_rewritten

    helper: Any = script_helper
    for name in ("assert_python_ok", "assert_python_failure"):
        setattr(helper, name, redirect(getattr(helper, name)))


def main(module_name: str, report: str, timeout_s: str, *names: str) -> None:
    redirect_scripts()
    module = importlib.import_module(module_name)
    with Path(report).open("a", encoding="utf-8") as out:
        suite = unittest.defaultTestLoader.loadTestsFromNames(names, module)
        suite.run(Reporter(out, float(timeout_s)))


if __name__ == "__main__":
    main(*sys.argv[1:])
