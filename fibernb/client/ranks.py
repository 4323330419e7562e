"""Views of ranks: the same thing on several seats. A view is live: it names seats, whatever engine sits there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fibernb import serialize
from fibernb.client import ends
from fibernb.client.calls import PinnedCalls
from fibernb.client.cells import CellHandle, CellResult, imports_of
from fibernb.client.namespaces import join, parts
from fibernb.client.parcels import Parcel, keepers_of, parcel_of
from fibernb.client.selection import select
from fibernb.client.session import define
from fibernb.core.messages import DefineFunction, InterruptRanks, RestartSeats, Said
from fibernb.engine import operations
from fibernb.engine.context import CellContext
from fibernb.errors import CellTimeout
from fibernb.model import Rank


class RankView:
    """Some ranks of a cluster.

    Parameters
    ----------
    calls : runs things there.
    size : tells how many seats the cluster has now.
    key : which ranks: a number, a slice, a list of numbers, or a text such as ``1:8``.
    """

    def __init__(self, calls: PinnedCalls, size: Callable[[], int], key: Any) -> None:
        self._calls = calls
        self._size = size
        self._key = key

    @property
    def ranks(self) -> list[Rank]:
        """The ranks that the view stands for now. Raises `ConfigError` when one of them does not exist."""
        return select(self._key, self._size())

    def __len__(self) -> int:
        return len(self.ranks)

    # ---- names -------------------------------------------------------------------------------------------

    def push(self, names: Mapping[str, Any]) -> None:
        """Set these names in the namespaces of the ranks, and of engines that sit there later."""
        self.push_parcels({name: self._parcel(name, value) for name, value in names.items()}).result()

    def push_parcels(self, names: Mapping[str, Parcel]) -> CellHandle:
        """As `push`, for values that are pickled already, without waiting. Keys are those of `operations.set_names`."""
        handle = self.start_with_parcels(self._calls.operation(operations.set_names), names)
        self.leave_parcels(names)
        return handle

    def start_with_parcels(self, function: DefineFunction, names: Mapping[str, Parcel]) -> CellHandle:
        """Call a function with pickled values by name, which are kept until it has ended."""
        values = {name: parcel.data for name, parcel in names.items()}
        handle = self._calls.start(function, self.ranks, [(values,)])
        kept = keepers_of(names.values())
        if kept:
            handle.add_done_callback(lambda _: kept.clear())
        return handle

    def leave_parcels(self, names: Mapping[str, Parcel]) -> None:
        """Let engines that sit on these ranks from now on begin with these values."""
        seats = self._lasting(self.ranks)
        for together, parcel in names.items():
            keys = [f"name {name}" for name in together.split()]
            arguments = [({together: parcel.data},)]
            self._calls.remember(keys, operations.set_names, arguments, seats, keepers_of([parcel]))

    def pull(self, names: str | Sequence[str]) -> CellResult:
        """The values of a name, or lists of values of several names, by rank."""
        wanted = [names] if isinstance(names, str) else list(names)
        ranks = self.ranks
        values = self._start(operations.get_names, ranks, [(wanted,)]).result()
        return CellResult((value[0] for value in values), ranks) if isinstance(names, str) else values

    def scatter(self, name: str, values: Any) -> None:
        """Cut a sequence into contiguous parts, one a rank, and set ``name`` to them."""
        ranks = self.ranks
        pieces = parts(values, len(ranks)) if ranks else []
        parcels = [self._parcel(name, piece) for piece in pieces]
        arguments = [({name: parcel.data},) for parcel in parcels]
        handle = self._start(operations.set_names, ranks, arguments)
        self._calls.remember([f"name {name}"], operations.set_names, arguments, ranks, keepers_of(parcels))
        handle.result()

    def gather(self, name: str) -> Any:
        """The parts of ``name``, joined in rank order: an array, series or data frame if they are, otherwise a list."""
        return join(self.pull(name))

    def __getitem__(self, name: str) -> CellResult:
        return self.pull(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.push({name: value})

    # ---- work --------------------------------------------------------------------------------------------

    def run(self, source: str, timeout: float | None = None) -> CellResult:
        """Run source code as a cell on every rank: the values of its last expression.

        Raises what the ranks raised, or `CellTimeout` after ``timeout`` seconds, when the cell has been cancelled.
        """
        handle = self.run_nowait(source)
        if not handle.wait(timeout):
            ranks = handle.unfinished()
            handle.cancel()
            raise CellTimeout(f"the cell had not finished after {timeout:g} s on ranks {ranks}; it is cancelled")
        return handle.result()

    def run_nowait(
        self,
        source: str,
        *,
        filename: str = "<cell>",
        first_line: int = 1,
        cell_id: str = "",
        pushed: Sequence[str] = (),
        on_output: Callable[[Said], object] | None = None,
    ) -> CellHandle:
        """As `run`, without waiting. ``on_output`` is told what the ranks write, show and report."""
        ranks = self.ranks
        cell = CellContext(
            cell_id=cell_id,
            ranks=tuple(ranks),
            size=self._size(),
            filename=filename,
            first_line=first_line,
            pushed=tuple(pushed),
        )
        handle = self._start(operations.run_cell, ranks, [(source, cell)], on_output, name=filename)
        ends.watch(handle, self._calls.session.directory)
        imports = imports_of(source)
        if imports:
            handle.add_done_callback(lambda done: self._remember_imports(done, imports))
        return handle

    def apply(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> CellResult:
        """``function(*args, **kwargs)`` on every rank: the values."""
        return self.apply_nowait(function, *args, **kwargs).result()

    def apply_nowait(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> CellHandle:
        """As `apply`, without waiting."""
        return self._calls.start(define(function), self.ranks, [args], kwargs)

    def interrupt(self) -> None:
        """Interrupt whatever runs on the ranks."""
        self._calls.session.tell(InterruptRanks(ranks=self.ranks))

    def restart(self) -> None:
        """Give the ranks fresh engines, which get the pushed names again."""
        self._calls.session.tell(RestartSeats(ranks=self.ranks))

    def _start(
        self,
        operation: Callable[..., Any],
        ranks: Sequence[Rank],
        arguments: Sequence[tuple[Any, ...]],
        on_said: Callable[[Said], object] | None = None,
        name: str | None = None,
    ) -> CellHandle:
        return self._calls.start(self._calls.operation(operation), ranks, arguments, on_said=on_said, name=name)

    def _parcel(self, name: str, value: Any) -> Parcel:
        return parcel_of(self._calls.session, serialize.Apart(value, name))

    def _lasting(self, ranks: Sequence[Rank]) -> Sequence[Rank] | None:
        """The ranks to remember something for: None, so seats to come as well, when the view takes in all."""
        return None if len(ranks) == self._size() else ranks

    def _remember_imports(self, done: CellHandle, imports: Iterable[str]) -> None:
        ranks = [rank for rank, ref in zip(done.ranks, done.refs, strict=True) if ref.exception() is None]
        if not ranks or self._calls.session.over is not None:
            return
        for statement in imports:
            self._calls.remember([statement], operations.run_imports, [(statement,)], self._lasting(ranks))

    def __repr__(self) -> str:
        return f"<ranks {self._key!r}>" if not isinstance(self._key, slice) else f"<ranks {_slice_text(self._key)}>"


class Ranks:
    """``cluster.ranks``: indexed by a number, a slice, a list of numbers or a text."""

    def __init__(self, calls: PinnedCalls, size: Callable[[], int]) -> None:
        self._calls = calls
        self._size = size

    def __getitem__(self, key: Any) -> RankView:
        view = RankView(self._calls, self._size, key)
        _ = view.ranks  # complains at once about ranks that do not exist
        return view

    def __len__(self) -> int:
        return self._size()


def _slice_text(key: slice) -> str:
    bounds = [key.start, key.stop] if key.step is None else [key.start, key.stop, key.step]
    return ":".join("" if bound is None else str(bound) for bound in bounds)
