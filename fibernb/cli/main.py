"""Finds the verb, reads its arguments, runs it; turns errors into a line of text and an exit code.

A hub is started by this way too and has to be up in a tenth of a second, so a verb's module is imported only when it is
asked for.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

FAILED: Final = 1
INTERRUPTED: Final = 130

VERBS: Final = {
    "install": "make a kernel 'Python (FiberNB)' for Jupyter that loads the magics",
    "uninstall": "remove that kernel",
    "demo": "start a few engines, compute something on them, stop",
    "list": "show the clusters of this user",
    "status": "show what a cluster does",
    "stop": "end a cluster, or all",
    "logs": "show the log of a cluster or of one of its engines",
    "run": "run a Python script with a cluster at hand",
    "doctor": "check what can go wrong on this host",
    "hub": "be the hub of a cluster (started by FiberNB itself)",
    "node": "be the node process of a cluster (started by its hub)",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``fibernb`` with the arguments of the command line; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] not in VERBS:
        _overview().parse_args(given or ["--help"])
        return FAILED
    verb = importlib.import_module(f"fibernb.cli.{given[0]}")
    options = _parser(given[0], verb).parse_args(given[1:])
    try:
        return int(verb.run(options))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILED
    except _expected_errors() as error:
        return _report(error, options)


def _overview() -> argparse.ArgumentParser:
    """For ``--help``, ``--version`` and verbs that there are not."""
    lines = "\n".join(f"  {verb:<10} {text}" for verb, text in VERBS.items())
    parser = argparse.ArgumentParser(
        prog="fibernb",
        description="Parallel machines for notebooks.",
        epilog=f"verbs:\n{lines}\n\n`fibernb VERB --help` tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = importlib.import_module("fibernb.version").VERSION
    parser.add_argument("--version", action="version", version=f"fibernb {version}")
    parser.add_argument("verb", choices=VERBS, metavar="VERB", help="what to do")
    return parser


def _parser(name: str, verb: ModuleType) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"fibernb {name}", description=verb.HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")
    verb.add_arguments(parser)
    return parser


def _expected_errors() -> tuple[type[Exception], ...]:
    """A user's mistakes and a host's troubles; anything else is a fault of ours and shows its traceback."""
    return (importlib.import_module("fibernb.errors").FibernbError, OSError)


def _report(error: Exception, options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps({"error": str(error), "kind": type(error).__name__}))
    else:
        print(f"fibernb: {error}", file=sys.stderr)
    return FAILED
