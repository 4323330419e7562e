# mypy: disable-error-code="untyped-decorator"
"""The cases of Ray's microbenchmark that one machine can run, written once for every system with Ray's interface.

A case is prepared with the module that is measured (``fibernb`` or ``ray``), on a cluster of `WORKERS` workers that
lives for this case only, and gives an action to repeat. What is remote is made inside of functions: it then travels by
value, with the module that it uses, in both systems.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

Api: TypeAlias = Any  # the module that is measured
Action: TypeAlias = Callable[[], object]

WORKERS: Final = 2
SERVERS: Final = 2  # the n of the cases 1:n and n:n
CALLS: Final = 1000
MANY: Final = 5000
REFERENCES: Final = 10_000
LARGE_BYTES: Final = 800_000_000
PIECE_BYTES: Final = 80_000_000
GROUPS: Final = 100


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is prepared, and how many units of work one run of the action is."""

    name: str
    title: str
    prepare: Callable[[Api], Action]
    amount: float = 1
    unit: str = "calls"  # of the amount; figures are units a second
    once: bool = False  # the first run on a fresh cluster is what counts,
    after_s: float = 0.0  # when it has stood for so long
    bound: float = 1  # how many times Ray's figure FiberNB's is to be


def filled(size_bytes: int) -> Any:
    """An array of memory that is really there: untouched zeros would be copied from one page of the kernel."""
    return np.arange(size_bytes // 8, dtype=np.int64)


# ---- what is remote -----------------------------------------------------------------------------------------


def small_task(api: Api) -> Any:
    @api.remote
    def small_value() -> bytes:
        return b"ok"

    return small_value


def server_class(api: Api) -> Any:
    class Server:
        def small_value(self) -> bytes:
            return b"ok"

        def small_value_of(self, _value: object) -> bytes:
            return b"ok"

    return api.remote(num_cpus=0)(Server)


def async_server_class(api: Api) -> Any:
    class AsyncServer:
        async def small_value(self) -> bytes:
            return b"ok"

        async def small_value_of(self, _value: object) -> bytes:
            return b"ok"

    return api.remote(num_cpus=0)(AsyncServer)


def caller_class(api: Api) -> Any:
    """An actor that calls tasks and other actors."""
    task = small_task(api)

    class Caller:
        def __init__(self, *servers: Any) -> None:
            self.servers = servers

        def call_tasks(self, count: int) -> None:
            api.get([task.remote() for _ in range(count)])

        def call_each(self, count: int) -> None:
            api.get([server.small_value.remote() for server in self.servers for _ in range(count)])

        def call_each_with(self, count: int) -> None:
            value = api.put(0)
            api.get([server.small_value_of.remote(value) for server in self.servers for _ in range(count)])

    return api.remote(num_cpus=0)(Caller)


# ---- objects ------------------------------------------------------------------------------------------------


def get_small(api: Api) -> Action:
    value = api.put(0)
    return lambda: api.get(value)


def put_small(api: Api) -> Action:
    return lambda: api.put(0)


def put_small_from_many(api: Api) -> Action:
    @api.remote
    def put_often() -> None:
        for _ in range(100):
            api.put(0)

    return lambda: api.get([put_often.remote() for _ in range(10)])


def put_large(api: Api) -> Action:
    array = filled(LARGE_BYTES)
    return lambda: api.put(array)


def put_large_from_many(api: Api) -> Action:
    @api.remote
    def put_often() -> None:
        array = filled(PIECE_BYTES)
        for _ in range(10):
            api.put(array)

    return lambda: api.get([put_often.remote() for _ in range(4)])


def get_large(api: Api) -> Action:
    @api.remote
    def make() -> Any:
        return filled(LARGE_BYTES)

    value = make.remote()
    return lambda: api.get(value)


def get_references(api: Api) -> Action:
    @api.remote
    def make() -> list[Any]:
        return [api.put(1) for _ in range(REFERENCES)]

    value = make.remote()
    return lambda: api.get(value)


# ---- tasks --------------------------------------------------------------------------------------------------


def tasks_one_by_one(api: Api) -> Action:
    task = small_task(api)
    return lambda: api.get(task.remote())


def tasks_at_once(api: Api) -> Action:
    task = small_task(api)
    return lambda: api.get([task.remote() for _ in range(CALLS)])


def tasks_from_many(api: Api) -> Action:
    callers = [caller_class(api).remote() for _ in range(4)]
    return lambda: api.get([caller.call_tasks.remote(CALLS) for caller in callers])


def wait_for_each(api: Api) -> Action:
    task = small_task(api)

    def action() -> None:
        rest = [task.remote() for _ in range(CALLS)]
        while rest:
            _, rest = api.wait(rest)

    return action


# ---- actors -------------------------------------------------------------------------------------------------


def calls_one_by_one(make: Callable[[Api], Any]) -> Callable[[Api], Action]:
    def prepare(api: Api) -> Action:
        server = make(api).remote()
        return lambda: api.get(server.small_value.remote())

    return prepare


def calls_at_once(make: Callable[[Api], Any], **options: Any) -> Callable[[Api], Action]:
    def prepare(api: Api) -> Action:
        server = make(api).options(**options).remote() if options else make(api).remote()
        return lambda: api.get([server.small_value.remote() for _ in range(CALLS)])

    return prepare


def calls_with_values(api: Api) -> Action:
    server = async_server_class(api).remote()
    return lambda: api.get([server.small_value_of.remote(number) for number in range(CALLS)])


def calls_to_many(make: Callable[[Api], Any]) -> Callable[[Api], Action]:
    def prepare(api: Api) -> Action:
        servers = [make(api).remote() for _ in range(SERVERS)]
        caller = caller_class(api).remote(*servers)
        return lambda: api.get(caller.call_each.remote(MANY))

    return prepare


def calls_among_many(make: Callable[[Api], Any]) -> Callable[[Api], Action]:
    def prepare(api: Api) -> Action:
        servers = [make(api).remote() for _ in range(SERVERS)]

        @api.remote
        def call_all(servers: list[Any]) -> None:
            api.get([servers[number % SERVERS].small_value.remote() for number in range(MANY)])

        return lambda: api.get([call_all.remote(servers) for _ in range(4)])

    return prepare


def calls_among_many_with_values(api: Api) -> Action:
    callers = [caller_class(api).remote(server_class(api).remote()) for _ in range(SERVERS)]
    return lambda: api.get([caller.call_each_with.remote(CALLS) for caller in callers])


# ---- the rest -----------------------------------------------------------------------------------------------


def placement_groups(api: Api) -> Action:
    util = api.util

    def action() -> None:
        groups = [util.placement_group([{"custom": 0.001}]) for _ in range(GROUPS)]
        for group in groups:
            if not group.wait(timeout_seconds=30):
                raise RuntimeError("a placement group was not made in 30 s")
        for group in groups:
            util.remove_placement_group(group)

    return action


CASES: Final = (
    Case(name="get", title="get of a small value", prepare=get_small, unit="gets"),
    Case(name="put", title="put of a small value", prepare=put_small, unit="puts"),
    Case(
        name="put-many",
        title="put of small values, from tasks",
        prepare=put_small_from_many,
        amount=1000,
        unit="puts",
    ),
    Case(
        name="put-first",
        title="put of a large array, first on a new cluster",
        prepare=put_large,
        amount=LARGE_BYTES / 1e9,
        unit="GB",
        once=True,
    ),
    Case(
        name="put-first-later",
        title="put of a large array, first, 2 s after the cluster started",
        prepare=put_large,
        amount=LARGE_BYTES / 1e9,
        unit="GB",
        once=True,
        after_s=2.0,
        bound=2,
    ),
    Case(
        name="put-large",
        title="put of a large array, again and again",
        prepare=put_large,
        amount=LARGE_BYTES / 1e9,
        unit="GB",
    ),
    Case(
        name="put-large-many",
        title="put of large arrays, from tasks",
        prepare=put_large_from_many,
        amount=4 * 10 * PIECE_BYTES / 1e9,
        unit="GB",
    ),
    Case(name="get-large", title="get of a large array", prepare=get_large, unit="gets"),
    Case(name="get-references", title="get of 10,000 references in one object", prepare=get_references, unit="gets"),
    Case(name="wait", title="wait on 1,000 references, one by one", prepare=wait_for_each, unit="rounds"),
    Case(name="tasks-sync", title="tasks, one by one", prepare=tasks_one_by_one, unit="tasks", bound=10),
    Case(
        name="tasks-async",
        title="tasks, 1,000 at once",
        prepare=tasks_at_once,
        amount=CALLS,
        unit="tasks",
        bound=10,
    ),
    Case(
        name="tasks-batch",
        title="batches of 1,000 tasks and their results",
        prepare=tasks_at_once,
        unit="batches",
        bound=10,
    ),
    Case(
        name="tasks-many",
        title="tasks, 1,000 at once from each of 4 actors",
        prepare=tasks_from_many,
        amount=4 * CALLS,
        unit="tasks",
        bound=10,
    ),
    Case(name="actor-sync", title="actor calls 1:1, one by one", prepare=calls_one_by_one(server_class), bound=10),
    Case(
        name="actor-async",
        title="actor calls 1:1, 1,000 at once",
        prepare=calls_at_once(server_class),
        amount=CALLS,
        bound=10,
    ),
    Case(
        name="actor-concurrent",
        title="actor calls 1:1, 1,000 at once on 16 threads",
        prepare=calls_at_once(server_class, max_concurrency=16),
        amount=CALLS,
        bound=10,
    ),
    Case(
        name="actor-1n",
        title="actor calls 1:n, 5,000 at once to each",
        prepare=calls_to_many(server_class),
        amount=SERVERS * MANY,
        bound=10,
    ),
    Case(
        name="actor-nn",
        title="actor calls n:n, 5,000 at once from each",
        prepare=calls_among_many(server_class),
        amount=4 * MANY,
        bound=10,
    ),
    Case(
        name="actor-nn-args",
        title="actor calls n:n with a reference, 1,000 at once from each",
        prepare=calls_among_many_with_values,
        amount=SERVERS * CALLS,
        bound=10,
    ),
    Case(
        name="async-sync",
        title="async actor calls 1:1, one by one",
        prepare=calls_one_by_one(async_server_class),
        bound=10,
    ),
    Case(
        name="async-async",
        title="async actor calls 1:1, 1,000 at once",
        prepare=calls_at_once(async_server_class),
        amount=CALLS,
        bound=10,
    ),
    Case(
        name="async-args",
        title="async actor calls 1:1 with values, 1,000 at once",
        prepare=calls_with_values,
        amount=CALLS,
        bound=10,
    ),
    Case(
        name="async-1n",
        title="async actor calls 1:n, 5,000 at once to each",
        prepare=calls_to_many(async_server_class),
        amount=SERVERS * MANY,
        bound=10,
    ),
    Case(
        name="async-nn",
        title="async actor calls n:n, 5,000 at once from each",
        prepare=calls_among_many(async_server_class),
        amount=4 * MANY,
        bound=10,
    ),
    Case(
        name="groups",
        title="placement groups made and removed",
        prepare=placement_groups,
        amount=GROUPS,
        unit="groups",
    ),
)
