"""The verbs of ``%fiber`` that stop work: a cell or tasks by what they are called, or whatever runs on ranks."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell

from fibernb.client.cells import Handle
from fibernb.client.failures import shorthand
from fibernb.client.refs import ObjectRef
from fibernb.client.streams import ObjectRefGenerator
from fibernb.core.messages import SeatStatus
from fibernb.notebook.clusters import Clusters
from fibernb.notebook.looking import chosen
from fibernb.notebook.parallel import Parallel
from fibernb.notebook.usage import UsageError, did_you_mean

_CELL: Final = re.compile(r"(?:In|Out)?\[?(\d+)\]?")


class StoppingVerbs:
    """Cancel, interrupt."""

    def __init__(self, shell: InteractiveShell, clusters: Clusters, parallel: Parallel) -> None:
        self._shell = shell
        self._clusters = clusters
        self._parallel = parallel
        self.verbs: dict[str, Callable[[argparse.Namespace], Any]] = {
            "cancel": self._cancel,
            "interrupt": self._interrupt,
        }

    def _cancel(self, options: argparse.Namespace) -> None:
        print(self._cancel_cells() if options.id is None else self._cancel_called(options.id))

    def _cancel_cells(self) -> str:
        running = self._parallel.running()
        for work in running:
            work.cancel()
        if running:
            return f"{_count(len(running), 'background cell')} cancelled"
        names = self._names_of_tasks()
        tasks = f"; tasks do: {', '.join(names)} (%fiber cancel {names[0]})" if names else ""
        return f"no cell runs in the background{tasks}"

    def _cancel_called(self, called: str) -> str:
        value = self._value_of(called)
        if isinstance(value, Handle):
            return _cancel_all(called, [value], [ref for ref in value.refs if not ref.done()])
        if isinstance(value, ObjectRef | ObjectRefGenerator):
            value = [value]
        refs = [item for item in value if isinstance(item, ObjectRef | ObjectRefGenerator)] if value else []
        if refs:
            return _cancel_all(called, refs, [ref for ref in refs if not _is_done(ref)])
        number = _CELL.fullmatch(called)
        names = {called, f"In[{number[1]}]" if number else called}
        tasks = [ref for ref in self._pending() if names & {_name_of(ref), ref.hex()}]
        if not tasks:
            raise UsageError(f"%fiber cancel: nothing that is called {called!r} runs{self._hint(called)}")
        return _cancel_all(called, tasks, tasks)

    def _value_of(self, called: str) -> Any:
        """A handle or references that the user has under that name, or as the value of a cell of that number."""
        number = _CELL.fullmatch(called)
        space = self._shell.user_ns
        value = space.get("Out", {}).get(int(number[1])) if number else space.get(called)
        return value if isinstance(value, Handle | ObjectRef | ObjectRefGenerator | list | tuple) else None

    def _pending(self) -> list[ObjectRef]:
        if not self._clusters.in_use():
            return []
        books = self._clusters.existing().session.books
        with books.mutex:
            return list(books.ledger.pending.values())

    def _names_of_tasks(self) -> list[str]:
        """Of the functions that run, the one with most calls first."""
        counts = Counter(name for ref in self._pending() if (name := _name_of(ref)))
        return [name for name, _ in counts.most_common(5)]

    def _hint(self, called: str) -> str:
        handles = [name for name, value in self._shell.user_ns.items() if name[0] != "_" and _runs(value)]
        names = [*handles, *self._names_of_tasks()]
        nearest = did_you_mean(called, names)
        return nearest or (f"; what runs: {', '.join(names)}" if names else "")

    def _interrupt(self, options: argparse.Namespace) -> None:
        cluster = self._clusters.existing()
        ranks = chosen(cluster, options.ranks)
        busy = [seat for seat in cluster.status().engines if seat.rank in ranks and seat.task is not None]
        cluster.interrupt(ranks)
        nothing = f"nothing runs on {_ranks(ranks)}" if ranks else "nothing runs: the cluster has no engines"
        print("\n".join(_interrupted(busy)) if busy else nothing)


def _interrupted(busy: Sequence[SeatStatus]) -> list[str]:
    functions: dict[str, list[int]] = {}
    for seat in busy:
        functions.setdefault(seat.function, []).append(seat.rank)
    return [f"interrupted {function} on {_ranks(ranks)}" for function, ranks in functions.items()]


def _cancel_all(called: str, things: Sequence[Any], running: Sequence[object]) -> str:
    if not running:
        return f"{called} has ended already"
    for thing in things:
        thing.cancel()
    return f"{called}: {_count(len(running), 'call')} cancelled"


def _runs(value: object) -> bool:
    return isinstance(value, Handle) and not all(ref.done() for ref in value.refs)


def _is_done(ref: ObjectRef | ObjectRefGenerator) -> bool:
    return isinstance(ref, ObjectRef) and ref.done()


def _name_of(ref: ObjectRef) -> str:
    return "" if ref.group is None else ref.group.options.name


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {shorthand(ranks)}"
