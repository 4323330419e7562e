"""Which values go to which ranks."""

import threading

import pytest

from fibernb import serialize
from fibernb.errors import SerializationError
from fibernb.notebook.pushing import Delivery, PushLedger, pack
from fibernb.notebook.standin import StandIn


def deliver(ledger: PushLedger, namespace: dict[str, object], ranks: list[int]) -> dict[int, set[str]]:
    """Send what is lacking; the names that each rank got."""
    parcels = pack(namespace, namespace)
    got: dict[int, set[str]] = {}
    for delivery in ledger.deliveries(parcels, ranks):
        ledger.note(delivery, parcels)
        got.update((rank, set(delivery.values)) for rank in delivery.ranks)
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
    parcels = pack(["x"], {"x": 1})
    assert PushLedger().deliveries(parcels, range(3)) == [Delivery((0, 1, 2), {"x": parcels["x"].data})]


def test_what_a_cell_assigned_is_kept() -> None:
    ledger = PushLedger()
    namespace: dict[str, object] = {"x": 1}
    parcels = pack(["x"], namespace)
    ledger.note_assigned(parcels, [0])
    assert ledger.deliveries(parcels, [0, 1]) == [
        Delivery((0,), {"x": parcels["x"].data}, keep=True),
        Delivery((1,), {"x": parcels["x"].data}),
    ]
    assert deliver(ledger, namespace, [0, 1]) == {0: {"x"}, 1: {"x"}}
    ledger.note_assigned(parcels, [0])
    assert deliver(ledger, namespace, [0]) == {}
    changed = pack(["x"], {"x": 2})
    assert ledger.deliveries(changed, [0]) == [Delivery((0,), {"x": changed["x"].data})]
    ledger.note_assigned(changed, [0])
    assert [delivery.keep for delivery in ledger.deliveries(changed, [0])] == [True]


def test_new_ranks_begin_with_what_went_everywhere() -> None:
    ledger = PushLedger()
    parcels = pack(["x"], {"x": 1})
    (delivery,) = ledger.deliveries(parcels, [0, 1])
    ledger.note(delivery, parcels, everywhere=True)
    assert ledger.deliveries(parcels, range(5)) == []
    ledger.note_assigned(pack(["y"], {"y": 1}), [4])
    assert ledger.deliveries(parcels, range(5)) == []
    changed = pack(["x"], {"x": 2})
    assert ledger.deliveries(changed, range(5)) == [Delivery((0, 1, 2, 3, 4), {"x": changed["x"].data})]


def test_forget() -> None:
    ledger = PushLedger()
    deliver(ledger, {"x": 1}, [0, 1])
    ledger.forget([0, 7], ["x", "y"])
    assert deliver(ledger, {"x": 1}, [0, 1]) == {0: {"x"}}


def test_what_cannot_be_pickled_becomes_a_stand_in() -> None:
    parcels = pack(["box"], {"box": {"lock": threading.Lock()}})
    value = serialize.loads(parcels["box"].data)
    assert type(value) is StandIn
    with pytest.raises(SerializationError, match=r"'box' could not be sent from the notebook: box\['lock'\]"):
        repr(value)
