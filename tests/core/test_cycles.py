"""Actors that only hold each other end; those that somebody can reach stay."""

from __future__ import annotations

from fibernb.core.messages import Cancel, Goodbye, Hold, PutObjects, Release
from fibernb.core.settings import CoreSettings
from fibernb.core.states import ActorState
from fibernb.model import ClientId, Outcome, Result
from tests.core.bench import ANNA, BERT, Bench, task
from tests.core.invariants import board_of
from tests.core.test_acting import call, create, make

X, Y, Z, BOX = task(500_000), task(500_001), task(500_002), task(600_000)
LATER_S = CoreSettings().cycles_s + 0.1


def inside(bench: Bench, actor: int, *held: int, client: ClientId = 77) -> ClientId:
    """An actor, in whose engine a client lives that holds others."""
    engine = make(bench, actor)
    bench.attach(client, engine=engine)
    bench.say(Hold(objects=list(held)), client=client)
    return client


def alive(bench: Bench) -> set[int]:
    return {id_ for id_, actor in board_of(bench.scheduler).actors.items() if actor.state is not ActorState.DEAD}


def drop(bench: Bench, *ids: int) -> None:
    bench.say(Release(objects=list(ids)))


def test_one_that_holds_itself_ends() -> None:
    bench = Bench()
    inside(bench, X, X)
    bench.wait(LATER_S)
    assert alive(bench) == {X}, "its maker holds it"
    drop(bench, X)
    assert alive(bench) == {X}
    bench.wait(LATER_S)
    assert not alive(bench)
    ended = board_of(bench.scheduler).actors[X]
    assert ended.ended == "only actors that nobody else can reach held it"


def test_two_that_hold_each_other_end_with_all_that_only_they_hold() -> None:
    bench = Bench()
    create(bench, Z)
    inside(bench, X, Y, client=77)
    inside(bench, Y, X, Z, client=78)
    drop(bench, X, Y, Z)
    bench.wait(LATER_S)
    assert not alive(bench)


def test_they_go_with_the_client_that_made_them() -> None:
    bench = Bench()
    bench.attach(BERT)
    inside(bench, X, X)
    bench.say(Goodbye())
    bench.wait(LATER_S)
    assert not alive(bench)


def test_what_somebody_can_reach_stays() -> None:
    bench = Bench()
    bench.attach(BERT)
    inside(bench, X, Y, client=77)
    inside(bench, Y, X, client=78)
    bench.say(Hold(objects=[Y]), client=BERT)
    drop(bench, X, Y)
    bench.wait(LATER_S)
    assert alive(bench) == {X, Y}
    bench.say(Release(objects=[Y]), client=BERT)
    bench.wait(LATER_S)
    assert not alive(bench)


def test_a_value_that_somebody_holds_may_contain_them() -> None:
    bench = Bench()
    inside(bench, X, X)
    bench.say(PutObjects(objects=[Result(BOX, b"", refs=(X,))]))
    drop(bench, X)
    bench.wait(LATER_S)
    assert alive(bench) == {X}
    drop(bench, BOX)
    bench.wait(LATER_S)
    assert not alive(bench)


def test_a_value_within_the_cycle_is_none_of_these() -> None:
    bench = Bench()
    bench.submit(5, 6, 7)
    client = inside(bench, X, task(7))
    bench.say(PutObjects(objects=[Result(BOX, b"", Outcome.OK, (), (), (X, X))]), client=client)
    drop(bench, X)
    bench.wait(LATER_S)
    assert not alive(bench)


def test_detached_ones_stay_with_what_they_hold() -> None:
    bench = Bench()
    engine = make(bench, X, detached=True, name="x")
    bench.attach(77, engine=engine)
    inside(bench, Y, X, client=78)
    bench.say(Hold(objects=[X, Y]), client=77)
    drop(bench, X, Y)
    bench.wait(LATER_S)
    assert alive(bench) == {X, Y}


def test_calls_are_done_first() -> None:
    bench = Bench()
    inside(bench, X, X)
    call(bench, 1, actor=X)
    drop(bench, X)
    bench.wait(LATER_S)
    assert alive(bench) == {X}
    bench.say(Cancel(tasks=[task(1)], force=True))
    engine = board_of(bench.scheduler).actors[X].rank
    bench.done(bench.engine(engine), task(1))
    bench.wait(LATER_S)
    assert not alive(bench)


def test_clients_in_other_engines_count_as_somebody() -> None:
    bench = Bench()
    bench.attach(BERT, engine=bench.engine(0))
    bench.attach(79, engine=12345)
    make(bench, X)
    bench.say(Hold(objects=[X]), client=BERT)
    drop(bench, X)
    bench.wait(LATER_S)
    assert alive(bench) == {X}


def test_nobody_looks_where_there_are_no_actors() -> None:
    bench = Bench()
    bench.say(PutObjects(objects=[Result(BOX, b"")]), client=ANNA)
    drop(bench, BOX)
    assert ("cycles", 0) not in board_of(bench.scheduler).timers
