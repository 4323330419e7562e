"""Runs CPython's own tests about our modules, and compares with what is listed.

    python -m tests.cpython [SUITE ...] [--all] [--only PATTERN] [--jobs N] [--record]

The suites are ``multiprocessing`` and ``futures``. What has to pass is listed in ``passes/``, by suite and version of
Python; what
is left out stands with its reason in docs/multiprocessing.md. The end status is 1 when a listed test does not pass.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import platform
import sys
import time

from tests.cpython import lists
from tests.cpython.adapter import MissingSuite
from tests.cpython.runner import Outcome, names_of, run


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    verdicts = [prove(lists.SUITES[name], options) for name in options.suites or lists.SUITES]
    return 0 if all(verdicts) else 1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cpython", description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(lists.SUITES))
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of Class.test, as in the shell")
    parser.add_argument("--all", action="store_true", help="also those that are left out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="groups at once")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="of each test")
    parser.add_argument("--slow", type=int, default=0, metavar="N", help="show so many of the slowest")
    parser.add_argument("--record", action="store_true", help="write what passed to the list")
    return parser.parse_args(arguments)


def prove(suite: lists.Suite, options: argparse.Namespace) -> bool:
    """Run one suite, and tell how it went: whether everything that is listed passed."""
    try:
        names = names_of(suite.module)
    except MissingSuite as missing:
        print(f"CPython's {suite.title}: not run. {missing}")
        return not lists.passes(suite)
    chosen = [name for name in names if fnmatch.fnmatchcase(name, options.only)]
    kept = [name for name in chosen if options.all or suite.reason(name) is None]
    begun, outcomes = time.monotonic(), {}
    for outcome in run(suite.module, kept, jobs=options.jobs, timeout_s=options.timeout):
        outcomes[outcome.test] = outcome
        show(outcome)
    for outcome in sorted(outcomes.values(), key=lambda outcome: -outcome.seconds)[: options.slow]:
        print(f"{outcome.seconds:7.1f} s  {outcome.test}")
    if options.record:
        lists.record(suite, (name for name in kept if outcomes[name].outcome == "passed"), options.only)
    return conclude(suite, len(chosen) - len(kept), outcomes, time.monotonic() - begun)


def show(outcome: Outcome) -> None:
    if outcome.outcome == "failed":
        print(f"--- {outcome.test}\n{outcome.detail.rstrip()}", flush=True)


def conclude(suite: lists.Suite, left_out: int, outcomes: dict[str, Outcome], seconds: float) -> bool:
    """Print the counts, and the listed tests that did not pass."""
    of = {kind: [o.test for o in outcomes.values() if o.outcome == kind] for kind in ("passed", "failed", "skipped")}
    broken = sorted(lists.passes(suite) & (outcomes.keys() - set(of["passed"])))
    unlisted = sorted(set(of["failed"]) - set(broken))
    print(
        f"CPython {platform.python_version()}'s {suite.title}: {len(of['passed'])} passed, {len(of['failed'])} failed, "
        f"{len(of['skipped'])} do not apply by their own word, {left_out} left out (docs/multiprocessing.md); "
        f"{seconds:.0f} s"
    )
    for title, tests in (("listed, but did not pass", broken), ("failed, not listed", unlisted)):
        if tests:
            print(f"{title}: {' '.join(tests)}")
    return not broken


if __name__ == "__main__":
    sys.exit(main())
