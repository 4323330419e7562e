from __future__ import annotations

import gc

import pytest

import fibernb as fnb
from fibernb import serialize
from fibernb.client.refs import Group, ObjectRef
from fibernb.client.session import Session, define
from fibernb.core import messages as m
from fibernb.errors import ConfigError, NotConnected
from fibernb.model import STREAMING, ActorOptions, Outcome, Resources, Result, TaskOptions
from fibernb.serialize import Packed
from tests.client.fake_hub import FakeConnector, FakeHub
from tests.client.test_holding import released
from tests.client.test_session import double, wait_until


class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, amount: int) -> int:
        self.value += amount
        return self.value

    def pair(self) -> tuple[int, int]:
        return self.value, -self.value


COUNTER = define(Counter)
ADD, PAIR = (Group(serialize.dumps(name), TaskOptions(name=name)) for name in ("add", "pair"))


def pack(*args: object) -> tuple[Packed, tuple[int, ...]]:
    return serialize.pack_call(args, {}, ObjectRef, None)


def create(session: Session, *args: object, name: str = "", get_if_exists: bool = False) -> ObjectRef:
    session.define(COUNTER)
    inputs = [arg for arg in args if isinstance(arg, ObjectRef)]
    ref, about = session.create_actor(
        COUNTER.digest,
        pack(*args)[0],
        inputs,
        options=ActorOptions(name=name),
        about=f"about {name}".encode(),
        get_if_exists=get_if_exists,
    )
    assert about == f"about {name}".encode()
    return ref


def add(session: Session, actor: ObjectRef, amount: object, group: Group = ADD) -> ObjectRef:
    inputs = [amount] if isinstance(amount, ObjectRef) else []
    refs = session.submit_call(actor, group, pack(amount)[0], inputs)
    assert isinstance(refs, list)
    return refs[0]


def test_calls_run_in_order_and_travel_together(session: Session, hub: FakeHub) -> None:
    actor = create(session, 10)
    assert fnb.get([add(session, actor, amount) for amount in range(100)])[-1] == 10 + sum(range(100))
    assert len(hub.of(m.CallActor)) < 20
    assert hub.of(m.CallActor)[0].actor == actor.id


def test_the_object_of_an_actor_is_there_when_it_is(session: Session, hub: FakeHub) -> None:
    assert fnb.get(create(session)) is None


def test_calls_to_several_actors_share_messages(session: Session, hub: FakeHub) -> None:
    actors = [create(session, 0) for _ in range(5)]
    session.settle()
    with session.books.mutex:
        refs = [add(session, actors[number % 5], number) for number in range(50)]
    assert fnb.get(refs)[-5:] == [sum(range(start, 50, 5)) for start in range(5)]
    assert len(hub.of(m.CallActor)) == 5
    assert all(len(message.calls) == 10 for message in hub.of(m.CallActor))


def test_calls_of_different_methods_of_one_actor_keep_their_order(session: Session, hub: FakeHub) -> None:
    other = Group(ADD.function, TaskOptions(name="other"))
    actor, third = create(session), create(session)
    session.settle()
    with session.books.mutex:
        refs = [
            add(session, actor, 1),
            add(session, third, 5),
            add(session, actor, 2, other),
            add(session, actor, 3),
            add(session, third, 6),
        ]
    assert fnb.get(refs) == [1, 5, 3, 6, 11]


def test_calls_that_depend_on_others_follow_them(session: Session, hub: FakeHub) -> None:
    one, two = create(session), create(session)
    session.settle()
    with session.books.mutex:
        first = add(session, two, 1)
        second = add(session, one, 2)
        third = add(session, two, second)
        fourth = double.remote(third)
        fifth = add(session, one, fourth)
    assert fnb.get([first, second, third, fourth, fifth]) == [1, 2, 3, 6, 8]


def test_several_values_of_one_call(session: Session, hub: FakeHub) -> None:
    actor = create(session, 4)
    group = Group(PAIR.function, TaskOptions(name="pair", num_returns=2))
    refs = session.submit_call(actor, group, pack()[0], [])
    assert isinstance(refs, list)
    assert fnb.get(refs) == [4, -4]


def test_streaming_methods_give_a_generator(session: Session, hub: FakeHub) -> None:
    actor = create(session)
    generator = session.submit_call(actor, Group(PAIR.function, TaskOptions(num_returns=STREAMING)), pack()[0], [])
    assert not isinstance(generator, list)
    session.settle()
    assert hub.of(m.CallActor)[0].calls[0].id == generator.id


def test_dropping_the_last_reference_releases_the_actor(session: Session, hub: FakeHub) -> None:
    actor = create(session)
    last = add(session, actor, 1)
    id_ = actor.id
    del actor
    gc.collect()
    wait_until(lambda: released(hub) == [id_])
    assert fnb.get(last) == 1
    kinds = [type(message) for message in hub.heard]
    assert kinds.index(m.CreateActor) < kinds.index(m.CallActor) < kinds.index(m.Release)


def test_names(session: Session, hub: FakeHub) -> None:
    actor = create(session, name="counter")
    assert session.find_actor("counter") == (actor.id, b"about counter")
    assert session.find_actor("nobody") is None
    with pytest.raises(ConfigError, match="taken"):
        create(session, name="counter")
    assert create(session, name="counter", get_if_exists=True) is actor
    assert fnb.get(add(session, actor, 3)) == 3
    session.settle()
    assert not released(hub)


def test_a_fresh_hub_makes_the_actors_again(session: Session, hub: FakeHub) -> None:
    given = double.remote(5)
    fnb.get(given)
    actor, killed = create(session, given, name="counter"), create(session)
    del given
    session.kill_actor(killed)
    hub.hold = True
    last = add(session, actor, 1)
    wait_until(lambda: hub.of(m.CallActor))
    hub.heard.clear()
    hub.break_links(fresh=True)
    wait_until(lambda: hub.of(m.CallActor))
    (created,) = hub.of(m.CreateActor)
    assert (created.actor, created.request) == (actor.id, 0)
    assert [value.id for message in hub.of(m.PutObjects) for value in message.objects] == list(created.deps)
    assert hub.of(m.KillActor) == [m.KillActor(actor=killed.id)]
    hub.release_held()
    assert fnb.get(last) == 11


def test_a_name_that_nobody_answered_for_is_asked_for_again(session: Session, hub: FakeHub) -> None:
    import threading

    hub.deaf = True
    found: list[ObjectRef] = []
    thread = threading.Thread(target=lambda: found.append(create(session, name="late")))
    thread.start()
    wait_until(lambda: hub.of(m.CreateActor))
    hub.deaf = False
    hub.break_links()
    thread.join(10)
    assert fnb.get(found) == [None]
    assert not session.inbox.requests


def test_killing(session: Session, hub: FakeHub) -> None:
    actor = create(session)
    session.kill_actor(actor, no_restart=False)
    session.settle()
    assert hub.of(m.KillActor) == [m.KillActor(actor=actor.id, no_restart=False)]


def test_a_signal_is_sent_again_until_it_is_confirmed(session: Session, hub: FakeHub) -> None:
    actor = create(session)
    session.signal_actor(actor, 15)
    wait_until(lambda: hub.of(m.SignalActor))
    hub.break_links()
    wait_until(lambda: len(hub.of(m.SignalActor)) == 2)
    first, second = hub.of(m.SignalActor)
    assert first == second
    assert (first.actor, first.signal) == (actor.id, 15)
    hub.say(m.Synced(request=first.request))
    session.settle()
    assert not session.inbox.requests


def test_a_fresh_hub_is_not_asked_to_make_actors_again_that_have_died(session: Session, hub: FakeHub) -> None:
    dead, alive = create(session), create(session)
    last_word = Result(dead.id, b"it died", Outcome.ERROR)
    hub.deliver([last_word, Result(12345, b"nobody's", Outcome.ERROR)])
    session.settle()
    hub.heard.clear()
    hub.break_links(fresh=True)
    wait_until(lambda: hub.of(m.CreateActor))
    assert [message.actor for message in hub.of(m.CreateActor)] == [alive.id]
    assert [value for message in hub.of(m.PutObjects) for value in message.objects] == [last_word]


def test_actors_of_another_cluster_are_refused(session: Session, hub: FakeHub) -> None:
    other = Session(FakeConnector(hub))
    try:
        theirs = ObjectRef(1, other)
        with pytest.raises(NotConnected, match="another cluster"):
            session.submit_call(theirs, ADD, pack(1)[0], [])
        with pytest.raises(NotConnected, match="another cluster"):
            session.kill_actor(theirs)
    finally:
        other.close()


def test_placement_groups(session: Session, hub: FakeHub) -> None:
    group = session.create_group([Resources()], "SPREAD", name="mine")
    assert fnb.get(group) is None
    assert hub.of(m.CreateGroup) == [
        m.CreateGroup(group=group.id, bundles=[Resources()], strategy="SPREAD", name="mine")
    ]
    session.remove_group(group)
    session.settle()
    assert hub.of(m.RemoveGroup) == [m.RemoveGroup(group=group.id)]
    hub.heard.clear()
    hub.break_links(fresh=True)
    wait_until(lambda: hub.of(m.RemoveGroup))
    assert not hub.of(m.CreateGroup)


def test_states(session: Session, hub: FakeHub) -> None:
    assert session.state("tasks", where={"state": "RUNNING"}) == ([{"kind": "tasks", "state": "RUNNING"}], 5)
    assert hub.of(m.StateRequest)[0].limit == 10_000
