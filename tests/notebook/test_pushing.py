"""Which values go to which ranks."""

import threading
from typing import cast

import pytest

from fibernb import serialize
from fibernb.client.parcels import Parcel
from fibernb.client.refs import ObjectRef
from fibernb.errors import SerializationError
from fibernb.notebook.pushing import Delivery, PushLedger, pack
from fibernb.notebook.standin import StandIn
from fibernb.serialize import Apart


def deliver(ledger: PushLedger, namespace: dict[str, object], ranks: list[int]) -> dict[int, set[str]]:
    """Send what is lacking; the names that each rank got."""
    contents = pack(namespace, namespace)
    got: dict[int, set[str]] = {}
    for delivery in ledger.deliveries(contents, ranks):
        ledger.note(delivery, contents)
        got.update((rank, set(delivery.names)) for rank in delivery.ranks)
    return got


def test_only_what_changed() -> None:
    ledger = PushLedger()
    xs = [1, 2]
    namespace: dict[str, object] = {"x": 1, "xs": xs}
    assert deliver(ledger, namespace, [0, 1]) == {0: {"x", "xs"}, 1: {"x", "xs"}}
    assert deliver(ledger, namespace, [0, 1]) == {}
    xs.append(3)
    assert deliver(ledger, namespace, [0]) == {0: {"xs"}}
    assert deliver(ledger, namespace, [0, 1, 2]) == {1: {"xs"}, 2: {"x", "xs"}}
    namespace["x"] = 1 + 0  # another assignment of the same content
    assert deliver(ledger, namespace, [0, 1, 2]) == {}


def test_ranks_that_lack_the_same_are_served_together() -> None:
    contents = pack(["x"], {"x": 1})
    assert PushLedger().deliveries(contents, range(3)) == [Delivery((0, 1, 2), ("x",))]


def test_what_a_cell_assigned_is_kept() -> None:
    ledger = PushLedger()
    namespace: dict[str, object] = {"x": 1}
    contents = pack(["x"], namespace)
    ledger.note_assigned(contents, [0])
    assert ledger.deliveries(contents, [0, 1]) == [
        Delivery((0,), ("x",), keep=True),
        Delivery((1,), ("x",)),
    ]
    assert deliver(ledger, namespace, [0, 1]) == {0: {"x"}, 1: {"x"}}
    ledger.note_assigned(contents, [0])
    assert deliver(ledger, namespace, [0]) == {}
    changed = pack(["x"], {"x": 2})
    assert ledger.deliveries(changed, [0]) == [Delivery((0,), ("x",))]
    ledger.note_assigned(changed, [0])
    assert [delivery.keep for delivery in ledger.deliveries(changed, [0])] == [True]


def test_new_ranks_begin_with_what_went_everywhere() -> None:
    ledger = PushLedger()
    contents = pack(["x"], {"x": 1})
    (delivery,) = ledger.deliveries(contents, [0, 1])
    ledger.note(delivery, contents, everywhere=True)
    assert ledger.deliveries(contents, range(5)) == []
    ledger.note_assigned(pack(["y"], {"y": 1}), [4])
    assert ledger.deliveries(contents, range(5)) == []
    changed = pack(["x"], {"x": 2})
    assert ledger.deliveries(changed, range(5)) == [Delivery((0, 1, 2, 3, 4), ("x",))]


def test_forget() -> None:
    ledger = PushLedger()
    deliver(ledger, {"x": 1}, [0, 1])
    ledger.forget([0, 7], ["x", "y"])
    assert deliver(ledger, {"x": 1}, [0, 1]) == {0: {"x"}}


def test_what_cannot_be_pickled_becomes_a_stand_in() -> None:
    contents = pack(["box"], {"box": {"lock": threading.Lock()}})
    value = serialize.loads(contents["box"].pickled.whole())
    assert type(value) is StandIn
    with pytest.raises(SerializationError, match=r"'box' could not be sent from the notebook: box\['lock'\]"):
        repr(value)


def test_functions_are_sent_without_what_they_cannot_take_along() -> None:
    namespace = {"__name__": "__main__", "lock": threading.Lock()}
    exec("def f(locks): return lock if locks else 'free'", namespace)
    loaded = serialize.loads(pack(["f"], namespace)["f"].pickled.whole())
    assert loaded(False) == "free"
    assert type(loaded(True)) is StandIn
    with pytest.raises(SerializationError, match="lock"):
        pack(["f"], namespace, strict=True)


def test_large_values_are_stored_once() -> None:
    ledger, made = PushLedger(), []

    def store(pickled: Apart) -> Parcel:
        made.append(pickled.whole())
        return Parcel(made[-1], cast(ObjectRef, object()))

    contents = pack(["x"], {"x": 1})
    parcels = ledger.parcels(["x"], contents, store)
    assert ledger.parcels(["x"], pack(["x"], {"x": 1}), store)["x"] is parcels["x"]
    ledger.parcels(["x"], pack(["x"], {"x": 2}), store)
    assert len(made) == 2
    ledger.forget([0], ["x"])  # it may be lost
    ledger.parcels(["x"], pack(["x"], {"x": 2}), store)
    assert len(made) == 3
    ledger.parcels(["x"], contents, lambda pickled: Parcel(pickled.whole()))
    ledger.parcels(["x"], pack(["x"], {"x": 2}), store)
    assert len(made) == 4


def test_what_the_store_has_lost_goes_to_those_who_lack_it() -> None:
    ledger = PushLedger()
    contents = pack(["x", "y"], {"x": 1, "y": 2})
    ledger.parcels(contents, contents, lambda pickled: Parcel(pickled.whole(), cast(ObjectRef, object())))
    ledger.note(Delivery((0, 1), ("x", "y")), contents, everywhere=True)
    ledger.give_up(["x", "y", "z"], lambda _: False)
    assert ledger.deliveries(contents, range(3)) == []
    lost = ledger.parcels(["x"], contents, lambda pickled: Parcel(pickled.whole()))["x"]
    ledger.give_up(["x", "y"], lambda parcel: parcel is lost)
    assert ledger.deliveries(contents, range(3)) == [Delivery((0, 1, 2), ("x",), keep=True)]


def test_names_that_have_been_sent_are_known() -> None:
    ledger = PushLedger()
    assert not ledger.knows("x")
    deliver(ledger, {"x": 1}, [3])
    assert ledger.knows("x")
    contents = pack(["y"], {"y": 1})
    ledger.note(Delivery((), ("y",)), contents, everywhere=True)
    assert ledger.knows("y")
