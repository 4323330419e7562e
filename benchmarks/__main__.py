"""Runs the benchmarks, prints them as Markdown, and says by its exit code whether every figure was met."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import report
from benchmarks.beside_ray import ray_figures
from benchmarks.evolution import evolution_figures
from benchmarks.notebook_cases import notebook_figures
from benchmarks.overhead import overhead_figures
from benchmarks.peers import LIGHT, installed_heavy
from benchmarks.ring_cases import ring_figures
from benchmarks.scaling import scaling_figures
from benchmarks.sharing import sharing_figures
from benchmarks.starting import starting_figures
from benchmarks.talking import talking_figures
from benchmarks.throughput import no_op_figures

PARTS = ("starting", "scaling", "notebook", "tasks", "overhead", "talking", "evolution", "ring", "sharing", "ray")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--peers", action="store_true", help="also the peers that are packages, as far as installed")
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part; may be given several times")
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of each measurement (default: 5)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the Markdown there too")
    parser.add_argument("--readme", type=Path, metavar="FILE", help="bring the tables of the README up to date too")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a figure is missed")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    peers = [*LIGHT, *(installed_heavy() if options.peers else {})]
    parts: dict[str, Callable[[], tuple[list[report.Check], report.Table]]] = {
        "starting": lambda: starting_figures(options.repeats, peers),
        "scaling": lambda: scaling_figures(options.repeats // 2 + 1),
        "notebook": lambda: notebook_figures(options.repeats),
        "tasks": lambda: no_op_figures(options.repeats, options.peers),
        "overhead": lambda: overhead_figures(options.repeats // 2 + 1, options.peers),
        "talking": lambda: talking_figures(options.repeats),
        "evolution": lambda: evolution_figures(options.repeats),
        "ring": lambda: ring_figures(options.repeats),
        "sharing": sharing_figures,
        "ray": lambda: ray_figures(options.repeats // 2, options.peers),
    }
    facts = report.machine()
    checks: list[report.Check] = []
    tables: list[report.Table] = []
    for name in options.only or parts:
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        more_checks, table = parts[name]()
        checks += more_checks
        tables.append(table)
    command = "make bench PEERS=all" if options.peers else "make bench"
    text = report.document(command, facts, checks, tables)
    print(text)
    if options.write:
        options.write.write_text(text)
    if options.readme:
        options.readme.write_text(report.with_block(options.readme.read_text(), tables))
    return int(options.strict and not all(check.passed for check in checks))


if __name__ == "__main__":
    sys.exit(main())
