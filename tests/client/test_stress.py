"""References that many threads make, pass on, pickle and drop: in the end the hub holds nothing for nobody."""

from __future__ import annotations

import concurrent.futures
import gc
import random

import fibernb as fnb
from fibernb import serialize
from fibernb.client.refs import ObjectRef
from fibernb.client.session import Session
from fibernb.core import messages as m
from tests.client.fake_hub import FakeHub
from tests.client.test_session import double, wait_until

SHARED = range(100, 150)  # ids of objects that others have made


def held(hub: FakeHub) -> set[int]:
    """What the hub keeps for the client, by all that it has heard."""
    kept: set[int] = set()
    for message in list(hub.heard):
        if isinstance(message, m.PutObjects):
            kept.update(value.id for value in message.objects)
        elif isinstance(message, m.Hold):
            kept.update(message.objects)
        elif isinstance(message, m.Release):
            kept.difference_update(message.objects)
    return kept


def work(session: Session, seed: int) -> None:
    choose = random.Random(seed)
    mine: list[ObjectRef] = []
    for _ in range(300):
        action = choose.randrange(6)
        if action == 0:
            mine.append(fnb.put(choose.random()))
        elif action == 1:
            mine.append(session.borrow(choose.choice(SHARED)))
        elif action == 2 and mine:
            mine.append(fnb.put([choose.choice(mine)]))
        elif action == 3 and mine:
            packed = serialize.pack(choose.choices(mine, k=3))
            mine.extend(serialize.loads(packed.data))
        elif action == 4:
            ref = session.borrow(choose.choice(SHARED))
            assert fnb.get([double.remote(ref), ref]) == [2 * ref.id, ref.id]
        elif mine:
            del mine[choose.randrange(len(mine))]


def test_nothing_is_lost_and_nothing_left(session: Session, hub: FakeHub) -> None:
    for id_ in SHARED:
        hub.keep(id_, id_)
    hub.keeps = True
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda seed: work(session, seed), range(6)))
    gc.collect()
    wait_until(lambda: not held(hub))
    session.settle()
    assert not held(hub)
    assert not session.books.holdings.fetching
    assert not session.books.holdings.unconfirmed
