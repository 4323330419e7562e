"""Which engine a client may send calls to itself."""

from __future__ import annotations

import pytest

from fibernb.core.messages import Goodbye, KillActor, Meet, Met, OpenDoor
from fibernb.model import Resources, TaskOptions
from tests.core.bench import ANNA, BERT, Bench
from tests.core.invariants import board_of
from tests.core.test_acting import A, call, create, make


def meet(bench: Bench, actor: int = 0, client: int = ANNA) -> int:
    """The engine that a client may send calls to; it has been told so."""
    bench.say(Meet(request=7, actor=actor), client=client)
    [met] = bench.told(client, Met)
    assert met.request == 7
    assert bench.sent(OpenDoor) == ([(met.engine, OpenDoor())] if met.engine else [])
    return met.engine


def test_the_highest_seat_that_has_nothing_to_do() -> None:
    bench = Bench(seats=3)
    assert meet(bench) == bench.engine(2)
    bench.submit(1, 2)
    assert bench.calls() == {bench.engine(0): [1 + ANNA * 2**40], bench.engine(1): [2 + ANNA * 2**40]}


def test_each_client_has_one_of_its_own() -> None:
    bench = Bench(seats=2)
    bench.attach(BERT)
    assert meet(bench) == bench.engine(1)
    assert meet(bench, client=BERT) == bench.engine(0)
    assert meet(bench) == bench.engine(1), "the same again"
    bench.say(Goodbye(), client=BERT)
    assert meet(bench) == bench.engine(1)
    bench.attach(BERT)
    assert meet(bench, client=BERT) == bench.engine(0), "who has gone needs it no more"


def test_other_work_ends_the_loan() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT)
    assert meet(bench) == 1
    assert meet(bench, client=BERT) == 0
    bench.submit(1)
    bench.done(1, 1 + ANNA * 2**40)
    assert meet(bench, client=BERT) == 1


def test_none_while_all_are_busy_or_their_cpus_are_used() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    assert meet(bench) == 0
    bench.done(1, 1 + ANNA * 2**40)
    bench.submit(2, options=TaskOptions(resources=Resources(milli_cpus=500)))
    bench.seat_all()
    assert board_of(bench.scheduler).nodes["local"].free_milli() < 1000
    assert meet(bench) == 0


def test_the_engine_of_an_actor() -> None:
    bench = Bench(seats=1)
    engine = make(bench)
    assert meet(bench, A) == engine
    call(bench, 1)
    assert meet(bench, A) == engine, "it is lent to nobody"
    bench.say(KillActor(actor=A))
    assert meet(bench, A) == 0
    assert meet(bench, A + 1) == 0


@pytest.mark.parametrize("options", [{"max_concurrency": 2}, {"groups": {"io": 1}}, {"is_process": True}])
def test_not_that_of_an_actor_with_threads_nor_of_a_process(options: dict[str, object]) -> None:
    bench = Bench(seats=1)
    make(bench, **options)  # type: ignore[arg-type]
    assert meet(bench, A) == 0


def test_that_of_an_asyncio_actor() -> None:
    bench = Bench(seats=1)
    assert meet(bench, A) == 0
    engine = make(bench, is_async=True, max_concurrency=1000)
    assert meet(bench, A) == engine


def test_not_that_of_an_actor_which_is_not_there_yet() -> None:
    bench = Bench(seats=1)
    create(bench)
    assert meet(bench, A) == 0
