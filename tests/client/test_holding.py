from __future__ import annotations

import gc
import pickle

import pytest

import fibernb as fnb
from fibernb import serialize
from fibernb.client.holding import Holdings
from fibernb.client.refs import ObjectRef
from fibernb.client.session import Session
from fibernb.core import messages as m
from fibernb.errors import ObjectLost
from fibernb.model import Outcome, Result
from tests.client.fake_hub import FakeConnector, FakeHub, FakeStore
from tests.client.test_session import double, wait_until

LARGE = b"x" * 5000


@pytest.fixture
def hub() -> FakeHub:
    hub = FakeHub()
    hub.store = FakeStore()
    return hub


@fnb.remote
def size(data: bytes) -> int:
    return len(data)


@fnb.remote
def total(*parts: bytes) -> int:
    return sum(map(len, parts))


def puts(hub: FakeHub) -> list[Result]:
    return [value for message in hub.of(m.PutObjects) for value in message.objects]


def released(hub: FakeHub) -> list[int]:
    return [id_ for message in hub.of(m.Release) for id_ in message.objects]


# ---- puts -------------------------------------------------------------------------------------------------


def test_a_large_value_goes_to_the_store_and_its_reference_to_the_hub(session: Session, hub: FakeHub) -> None:
    ref = fnb.put(LARGE)
    wait_until(lambda: [value.id for value in puts(hub)] == [ref.id])
    assert puts(hub)[0].blocks == (1,)
    assert len(puts(hub)[0].value) < 1000
    assert fnb.get(ref) == LARGE
    assert fnb.get([size.remote(ref), size.remote(ref)]) == [5000, 5000]
    assert len(puts(hub)) == 1


def test_a_dropped_value_is_released_though_nothing_else_happens(session: Session, hub: FakeHub) -> None:
    ref = fnb.put(LARGE)
    wait_until(lambda: puts(hub))
    id_ = ref.id
    del ref
    gc.collect()
    wait_until(lambda: released(hub) == [id_])


def test_a_small_value_is_put_late_and_released_if_it_was(session: Session, hub: FakeHub) -> None:
    unused, used = fnb.put(1), fnb.put(2)
    fnb.get(double.remote(used))
    assert [value.id for value in puts(hub)] == [used.id]
    id_ = used.id
    del unused, used
    gc.collect()
    wait_until(lambda: released(hub) == [id_])


def test_a_reference_within_a_value_is_kept_by_that_value(session: Session, hub: FakeHub) -> None:
    inner = double.remote(4)
    fnb.get(inner)
    outer = fnb.put({"inner": inner})
    id_ = inner.id
    wait_until(lambda: [value.id for value in puts(hub)] == [id_, outer.id])
    assert puts(hub)[1].refs == (id_,)
    assert fnb.get(outer)["inner"] is inner
    del inner
    gc.collect()
    wait_until(lambda: released(hub) == [id_])


def test_an_object_that_is_borrowed_again_at_once_is_released_once(session: Session) -> None:
    holdings = Holdings(lambda: None)

    def borrow() -> ObjectRef:
        ref = ObjectRef(7, session)
        holdings.borrow(ref)
        return ref

    ref = borrow()
    assert holdings.messages() == [m.Hold(objects=[7])]
    del ref
    ref = borrow()
    del ref
    assert holdings.messages() == [m.Release(objects=[7])]
    assert not holdings.holds(7)
    ref = borrow()
    del ref
    assert not holdings.messages(), "the hub was not told of it"


# ---- arguments --------------------------------------------------------------------------------------------


def test_large_arguments_go_to_the_store_once(session: Session, hub: FakeHub) -> None:
    packed, deps = serialize.pack_call((LARGE, LARGE), {}, ObjectRef, session.store)
    group = total._group_for(session)
    (ref,) = session.submit_general(group, packed, [])
    assert not deps
    assert fnb.get(ref) == 10_000
    (call,) = hub.of(m.Submit)[0].calls
    assert len(call.args) < 100
    assert call.deps == (puts(hub)[0].id,)
    wait_until(lambda: released(hub) == [puts(hub)[0].id])


def test_large_arguments_stand_beside_inputs(session: Session, hub: FakeHub) -> None:
    given = fnb.put(b"abc")
    packed, _ = serialize.pack_call((given, LARGE), {}, ObjectRef, session.store)
    (ref,) = session.submit_general(total._group_for(session), packed, [given])
    assert fnb.get(ref) == 5003


def test_references_within_arguments_are_named_and_kept(session: Session, hub: FakeHub) -> None:
    inner = double.remote(4)
    fnb.get(inner)
    hub.hold = True
    packed, _ = serialize.pack_call(([inner],), {}, ObjectRef, session.store)
    ref = session.submit(fnb.remote(len)._group_for(session), packed)
    id_ = inner.id
    del inner
    session.flush()
    wait_until(lambda: hub.of(m.Submit)[-1].calls[0].refs == (id_,))
    assert [value.id for value in puts(hub)] == [id_]
    hub.break_links(fresh=True)
    wait_until(lambda: len(puts(hub)) == 2)  # the call may still need it
    assert not released(hub)
    hub.release_held()
    assert fnb.get(ref) == 1
    gc.collect()
    wait_until(lambda: released(hub) == [id_])


# ---- results ----------------------------------------------------------------------------------------------


def test_results_in_blocks_are_mapped_at_get_and_released(session: Session, hub: FakeHub) -> None:
    assert hub.store is not None
    hub.hold = True
    ref = double.remote(1)
    session.flush()
    packed = serialize.pack(LARGE, "value", hub.store)
    hub.deliver([Result(ref.id, packed.data, blocks=packed.blocks)])
    assert fnb.get(ref) == LARGE
    assert fnb.get([ref]) == [LARGE]
    id_ = ref.id
    del ref
    gc.collect()
    wait_until(lambda: released(hub) == [id_])
    assert not puts(hub)


def test_plain_results_are_never_held(session: Session, hub: FakeHub) -> None:
    fnb.get(double.map(range(10)))
    gc.collect()
    fnb.get(double.remote(1))
    assert not released(hub)


def test_a_value_whose_memory_is_lost_is_made_again(session: Session, hub: FakeHub) -> None:
    assert hub.store is not None
    ref = fnb.put(LARGE)
    session.settle()
    hub.store.blocks.clear()
    hub.remade[ref.id] = Result(ref.id, serialize.dumps("again"))
    assert fnb.get(ref) == "again"
    assert hub.of(m.Fetch) == [m.Fetch(objects=[ref.id], lost=[1])]


@pytest.mark.parametrize("way", ["get", "list", "future", "nested"])
def test_a_value_that_cannot_be_made_again_says_so(session: Session, hub: FakeHub, way: str) -> None:
    assert hub.store is not None
    ref = fnb.put(LARGE)
    session.settle()
    hub.store.blocks.clear()
    hub.remade[ref.id] = Result(ref.id, serialize.dumps_error(ObjectLost("it was put"), ""), Outcome.ERROR)
    ways = {
        "get": lambda: fnb.get(ref),
        "list": lambda: fnb.get([ref]),
        "nested": lambda: fnb.get([[ref]]),
        "future": lambda: ref.future().result(10),
    }
    with pytest.raises(ObjectLost, match="put"):
        ways[way]()


# ---- references of others ---------------------------------------------------------------------------------


def test_a_borrowed_reference_is_held_fetched_and_released(session: Session, hub: FakeHub) -> None:
    hub.keep(123, "theirs")
    ref = session.borrow(123)
    assert session.borrow(123) is ref
    assert fnb.get(ref) == "theirs"
    kinds = [type(message) for message in hub.heard]
    assert kinds.index(m.Hold) < kinds.index(m.Fetch)
    del ref
    gc.collect()
    wait_until(lambda: released(hub) == [123])


def test_many_borrowed_references_travel_in_one_message(session: Session, hub: FakeHub) -> None:
    ids = range(1000, 11_000)
    for id_ in ids:
        hub.keep(id_, id_)
    refs = [ObjectRef(id_, session) for id_ in ids]
    data = serialize.pack(refs, "value", None)
    assert data.refs == tuple(ids)
    del refs
    gc.collect()
    borrowed = serialize.loads(data.data)
    assert fnb.get(borrowed) == list(ids)
    assert len(hub.of(m.Hold)) <= 20
    assert len(hub.of(m.Fetch)) == 1
    del borrowed
    gc.collect()
    wait_until(lambda: set(released(hub)) == set(ids))


def test_a_reference_that_is_dropped_at_once_is_never_told_of(session: Session, hub: FakeHub) -> None:
    with session.books.mutex:  # nobody sends meanwhile
        session.borrow(5)
        gc.collect()
    session.settle()
    assert not released(hub)
    assert not [id_ for message in hub.of(m.Hold) for id_ in message.objects]


def test_borrowed_references_can_be_waited_for_in_every_way(session: Session, hub: FakeHub) -> None:
    import asyncio

    async def main() -> object:
        return await refs[1]

    for id_ in range(10, 15):
        hub.keep(id_, id_)
    refs = [session.borrow(id_) for id_ in range(10, 15)]
    seen: list[ObjectRef] = []
    refs[0].add_done_callback(seen.append)
    wait_until(lambda: seen == [refs[0]])
    assert asyncio.run(main()) == 11
    assert refs[2].future().result(10) == 12
    assert fnb.wait(refs, num_returns=5) == (refs, [])
    assert fnb.get(double.remote(refs[4])) == 28


def test_the_hub_knows_of_all_references_when_things_have_settled(session: Session, hub: FakeHub) -> None:
    hub.keep(9, 9)
    ref = session.borrow(9)
    submitted = double.remote(1)
    assert session.books.holdings.unconfirmed == [9]
    session.settle()
    assert 9 in hub.holds
    assert hub.of(m.Submit)[0].calls[0].id == submitted.id
    assert session.books.holdings.unconfirmed == []
    assert not ref.done()


def test_a_new_hub_is_told_what_is_held(session: Session, hub: FakeHub, connector: FakeConnector) -> None:
    hub.keep(9, "nine")
    hub.keep(11, "eleven")
    given, fetched, held = fnb.put(LARGE), session.borrow(9), session.borrow(11)
    assert fnb.get(fetched) == "nine"
    gone = fnb.put(LARGE)
    session.settle()
    del gone
    hub.heard.clear()
    hub.break_links(fresh=True)
    wait_until(lambda: hub.of(m.Hold))
    assert hub.of(m.Hold) == [m.Hold(objects=[11])]
    assert {value.id for value in puts(hub)} == {given.id, 9}
    assert not released(hub)
    hub.keep(11, "again")
    assert fnb.get(held) == "again"


def test_a_break_does_not_lose_what_was_asked_for(session: Session, hub: FakeHub) -> None:
    ref = session.borrow(9)
    seen: list[ObjectRef] = []
    ref.add_done_callback(seen.append)
    wait_until(lambda: hub.of(m.Fetch))
    hub.break_links()
    hub.keep(9, 9)
    wait_until(lambda: seen == [ref])


def test_a_users_own_pickle_keeps_the_object_for_good(session: Session, hub: FakeHub) -> None:
    ref = fnb.put([1])
    data = pickle.dumps(ref)
    id_ = ref.id
    del ref
    gc.collect()
    session.settle()
    assert [value.id for value in puts(hub)] == [id_]
    assert not released(hub)
    assert fnb.get(pickle.loads(data)) == [1]


def test_a_result_that_comes_again_after_it_was_dropped_is_released_again(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    ref = double.remote(1)
    session.flush()
    result = Result(ref.id, serialize.dumps(1), refs=(77,))
    hub.deliver([result])
    fnb.get(ref)
    id_ = ref.id
    hub.deliver([result])
    session.settle()
    assert not released(hub)
    del ref
    gc.collect()
    wait_until(lambda: released(hub) == [id_])
    hub.deliver([result, Result(id_ + 1000, serialize.dumps(1))])
    wait_until(lambda: released(hub) == [id_, id_])


def test_making_again_comes_to_an_end(session: Session, hub: FakeHub) -> None:
    assert hub.store is not None
    ref = fnb.put(LARGE)
    session.settle()
    hub.store.blocks.clear()
    with pytest.raises(ObjectLost, match="10 times"):
        fnb.get(ref)


# ---- actors that were found -------------------------------------------------------------------------------


def test_an_actor_that_was_found_and_dropped_at_once_is_released(session: Session, hub: FakeHub) -> None:
    hub.names["known"] = (12345, b"about")
    for number in range(1, 4):
        found = session.find_actor("known")
        assert found is not None
        session.borrow(found[0])
        session.settle()
        assert released(hub) == [12345] * number
