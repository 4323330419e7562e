"""A cluster in this process: cells run at once, one rank after the other, in a namespace each."""

from __future__ import annotations

import ast
import contextlib
import io
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from fibernb import serialize
from fibernb.client import failures
from fibernb.client.cells import CellResult
from fibernb.client.namespaces import join, parts
from fibernb.client.parcels import Parcel
from fibernb.client.selection import parse_ranks
from fibernb.core.messages import DefineFunction, Message, Output, Said, SeatsChanged, SeatStatus, Status
from fibernb.errors import ClusterError, NotConnected, RemoteTraceback, TaskCancelled
from fibernb.hub.connection import Connection
from fibernb.store.agent import StoreAgent
from fibernb.wire.storetalk import Described

MOST_SEATS = 4096


class FakeHandle:
    """A call on ranks. ``pending``: it goes on until it is cancelled."""

    def __init__(self, ranks: Sequence[int], outcomes: Sequence[Any], *, pending: bool = False) -> None:
        self.ranks = tuple(ranks)
        self.refs = ()
        self.cancels: list[bool] = []
        self._outcomes = dict(zip(ranks, outcomes, strict=True))
        self._pending = pending
        self._callbacks: list[Callable[[FakeHandle], object]] = []

    def done(self) -> bool:
        return not self._pending

    def wait(self, timeout: float | None = None) -> bool:
        return self.done()

    def result(self, timeout: float | None = None) -> CellResult:
        errors = self.errors()
        if errors:
            raise failures.combined(errors, len(self.ranks))
        return CellResult(self._outcomes.values(), self.ranks)

    def errors(self) -> dict[int, BaseException]:
        return {rank: outcome for rank, outcome in self._outcomes.items() if isinstance(outcome, BaseException)}

    def cancel(self, force: bool = False) -> None:
        self.cancels.append(force)
        if self._pending:
            self._outcomes = dict.fromkeys(self.ranks, TaskCancelled("cancelled"))
            self.finish()

    def finish(self) -> None:
        self._pending = False
        for callback in self._callbacks:
            callback(self)

    def states(self) -> list[str]:
        ended = {rank: "failed" if rank in self.errors() else "done" for rank in self.ranks}
        return ["running" if self._pending else ended[rank] for rank in self.ranks]

    def waits_for(self) -> list[str]:
        return []

    def cluster_status(self) -> Status | None:
        return None

    def add_done_callback(self, callback: Callable[[FakeHandle], object]) -> None:
        self._callbacks.append(callback)
        if self.done():
            callback(self)


class FakeStore(StoreAgent):
    described: Described

    def __init__(self) -> None:
        super().__init__("", "", "fake", 2**40)  # nothing is large enough for it

    def describe(self) -> Described:
        return self.described


class FakeSession:
    """Waits for what nobody but the test, or another thread, makes true. ``on_wait`` is called at every wait."""

    over = None
    seats = None
    client = 1

    def __init__(self) -> None:
        self.on_wait: Callable[[], object] = lambda: None
        self.told: list[Message] = []
        self.rows: dict[str, list[dict[str, Any]]] = {}  # of `state`, by kind
        self.store = FakeStore()
        self.inbox = SimpleNamespace(status=None)
        self.books = SimpleNamespace(mutex=contextlib.nullcontext(), ledger=SimpleNamespace(pending={}))

    def ask_status(self) -> None:
        """Nobody answers."""

    def new_ids(self, count: int) -> int:
        """It submits nothing itself."""
        return 0

    def state(self, kind: str, limit: int, where: dict[str, str]) -> tuple[list[dict[str, Any]], int]:
        rows = self.rows.get(kind, [])
        return rows[:limit], len(rows)

    def define(self, function: DefineFunction) -> None:
        self.told.append(function)

    def tell(self, message: Message) -> None:
        self.told.append(message)

    def wait(self, done: Callable[[], bool], timeout_s: float | None = None) -> bool:
        end = time.monotonic() + (0.02 if timeout_s is None else min(timeout_s, 0.02))
        while not done():
            self.on_wait()
            if time.monotonic() > end:
                return done()
            time.sleep(0.001)
        return True


class FakeView:
    def __init__(self, cluster: FakeCluster, ranks: Sequence[int]) -> None:
        self._cluster = cluster
        self._ranks = ranks

    def push_parcels(self, parcels: Mapping[str, Parcel]) -> FakeHandle:
        for rank in self._ranks:
            values = _values_of(parcels)
            self._cluster.pushes.append((rank, sorted(values)))
            self._cluster.namespaces[rank].update(values)
        return FakeHandle(self._ranks, [None] * len(self._ranks))

    def start_with_parcels(self, function: DefineFunction, parcels: Mapping[str, Parcel]) -> FakeHandle:
        assert function.name == "pushed names"
        for rank in self._ranks:
            values = _values_of(parcels)
            self._cluster.pushes.append((rank, [f"{name}?" for name in sorted(values)]))
            for name, value in values.items():
                self._cluster.namespaces[rank].setdefault(name, value)
        return FakeHandle(self._ranks, [None] * len(self._ranks))

    def leave_parcels(self, parcels: Mapping[str, Parcel]) -> None:
        """No new engine ever comes."""


class FakeCluster:
    """``pushes`` are the names that were sent, by rank; names with a question mark were sent to be kept."""

    name = "fake"
    owned = False

    def __init__(self, size: int) -> None:
        self.session = FakeSession()
        self.namespaces: list[dict[str, Any]] = [{} for _ in range(size)]
        self.pushes: list[tuple[int, list[str]]] = []
        self.calls: list[tuple[Any, ...]] = []
        self.pending = False  # whether cells go on until they are cancelled
        self.handle: FakeHandle | None = None
        self.maximum: int | None = None  # of autoscaling
        self.beyond: dict[str, Any] = {}  # counts of the status

    @property
    def size(self) -> int:
        return len(self.namespaces)

    def adopt(self) -> None:
        self.calls.append(("adopt",))

    def parse_ranks(self, text: str) -> list[int]:
        return parse_ranks(text, self.size)

    def view(self, ranks: Sequence[int] | None = None) -> FakeView:
        return FakeView(self, range(self.size) if ranks is None else ranks)

    def run_cell(
        self,
        source: str,
        ranks: Sequence[int],
        *,
        pushed: Sequence[str],
        on_output: Callable[[Said], object],
        filename: str,
        first_line: int,
    ) -> FakeHandle:
        outcomes = [self._run(source, rank, ranks, pushed, on_output) for rank in ranks]
        self.handle = FakeHandle(ranks, outcomes, pending=self.pending)
        return self.handle

    def _run(
        self, source: str, rank: int, ranks: Sequence[int], pushed: Sequence[str], on_output: Callable[[Said], object]
    ) -> Any:
        namespace = self.namespaces[rank]
        own = {"rank": rank, "size": self.size, "ranks": tuple(ranks)}
        namespace.update((name, value) for name, value in own.items() if name not in pushed)
        written = io.StringIO()
        try:
            with contextlib.redirect_stdout(written):
                value = _execute(source, namespace)
            serialize.dumps(value)
        except Exception as error:
            error.__cause__ = RemoteTraceback("".join(traceback.format_exception(error)))
            value = error
        if written.getvalue():
            on_output(Output(task=rank + 1, rank=rank, sequence=0, stream="stdout", text=written.getvalue()))
        return value

    def scale(
        self,
        seats: int,
        wait: bool = True,
        minimum: int | None = None,
        timeout_s: float | None = None,
        on_change: Callable[[SeatsChanged], object] | None = None,
    ) -> None:
        self.calls.append(("scale", seats, minimum, timeout_s))
        if seats > MOST_SEATS:
            raise ClusterError(f"{seats} seats are too many")
        self.namespaces = (self.namespaces + [{} for _ in range(seats)])[:seats]
        if on_change is not None:
            on_change(SeatsChanged(seats=seats, ready=seats, starting=0))

    def autoscale(self, minimum: int = 0, maximum: int | None = None, idle_s: float = 60.0) -> None:
        self.calls.append(("autoscale", minimum, maximum, idle_s))

    def restart(self, ranks: Sequence[int]) -> None:
        self.calls.append(("restart", list(ranks)))

    def interrupt(self, ranks: Sequence[int]) -> None:
        self.calls.append(("interrupt", list(ranks)))

    def stop(self) -> None:
        self.calls.append(("stop",))

    def detach(self) -> None:
        self.calls.append(("detach",))

    def pull(self, names: Sequence[str], ranks: Sequence[int]) -> CellResult:
        return CellResult(([self._held(rank, name) for name in names] for rank in ranks), ranks)

    def scatter(self, name: str, values: Any, ranks: Sequence[int]) -> None:
        for rank, piece in zip(ranks, parts(values, len(ranks)), strict=True):
            self.namespaces[rank][name] = piece

    def gather(self, name: str, ranks: Sequence[int]) -> Any:
        return join([self._held(rank, name) for rank in ranks])

    def _held(self, rank: int, name: str) -> Any:
        if name not in self.namespaces[rank]:
            raise NameError(f"rank {rank} has no name {name!r}")
        return self.namespaces[rank][name]

    def status(self) -> Status:
        seats = [SeatStatus(rank=rank, engine=rank + 1, state="idle") for rank in range(self.size)]
        return Status(
            request=1, seats=self.size, ready=self.size, busy=0, starting=0, waiting=0, queued=0, running=0, finished=0,
            failed=0, refused=0, engines=seats, clients=1, pending=[], node="here", maximum=self.maximum,
            **self.beyond,
        )  # fmt: skip


def _values_of(parcels: Mapping[str, Parcel]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for names, parcel in parcels.items():
        value = serialize.loads(parcel.data)
        values.update(value if " " in names else {names: value})
    return values


def _execute(source: str, namespace: dict[str, Any]) -> Any:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<cell>", "exec"), namespace)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)


class FakeClusters:
    """Stands for `fibernb.notebook.clusters.Clusters`."""

    def __init__(self) -> None:
        self.cluster: FakeCluster | None = None
        self.started: list[tuple[Any, ...]] = []

    def in_use(self) -> bool:
        return self.cluster is not None

    def size(self) -> int:
        return 0 if self.cluster is None else self.cluster.size

    def begin_cell(self, *_: object) -> None:
        """The engines are in this process, where the notebook is."""

    def current(self) -> FakeCluster:
        if self.cluster is None:
            self.cluster = FakeCluster(2)
        return self.cluster

    def existing(self) -> FakeCluster:
        if self.cluster is None:
            raise NotConnected("this notebook uses no cluster")
        return self.cluster

    def start(self, workers: int | None, *rest: Any) -> FakeCluster:
        self.started.append((workers, *rest))
        self.cluster = self.cluster or FakeCluster(2 if workers is None else workers)
        return self.cluster

    def attach(self, name: str | None) -> FakeCluster:
        self.started.append(("attach", name))
        return self.current()

    def leave_running(self) -> None:
        self.current().owned = False

    def forget(self) -> None:
        self.cluster = None

    def running(self) -> list[Connection]:
        return [Connection(name="fake", address="", key="", pid=7, host="here")] if self.cluster else []
