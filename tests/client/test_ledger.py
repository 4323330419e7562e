from __future__ import annotations

import pytest

from fibernb.client import ledger
from fibernb.client.ledger import Outbox
from fibernb.client.refs import ActorGroup, Group
from fibernb.core import messages as m
from fibernb.model import DEFAULT_OPTIONS, Call, Result, TaskOptions

F, G = Group(b"f", DEFAULT_OPTIONS), Group(b"g", DEFAULT_OPTIONS)


def calls(outbox: Outbox) -> list[tuple[str | int, list[int]]]:
    """What would be sent: for each message the function, or the actor, and the calls."""
    found: list[tuple[str | int, list[int]]] = []
    for message in outbox.take():
        if isinstance(message, m.CallActor):
            found.append((message.actor, [call.id for call in message.calls]))
        elif isinstance(message, m.Submit):
            found.append((message.function.decode(), [call.id for call in message.calls]))
        else:
            found.append((type(message).__name__, []))
    return found


def test_neighbours_of_one_group_travel_together() -> None:
    outbox = Outbox()
    assert not outbox
    for id_ in range(3):
        assert not outbox.add_call(F, Call(id_, b""))
    assert outbox
    assert calls(outbox) == [("f", [0, 1, 2])]
    assert not outbox
    assert calls(outbox) == []


def test_so_do_calls_between_which_others_came() -> None:
    outbox = Outbox()
    for id_, group in enumerate([F, G, F, G]):
        outbox.add_call(group, Call(id_, b""))
    assert calls(outbox) == [("f", [0, 2]), ("g", [1, 3])]


@pytest.mark.parametrize("needs", [{"deps": (0,)}, {"refs": (0,)}])
def test_a_call_that_refers_to_others_stays_behind_them(needs: dict[str, tuple[int, ...]]) -> None:
    outbox = Outbox()
    outbox.add_call(G, Call(0, b""))
    outbox.add_call(F, Call(1, b""))
    outbox.add_call(G, Call(2, b"", **needs))
    outbox.add_call(F, Call(3, b""))
    outbox.add_call(G, Call(4, b"", **needs))
    assert calls(outbox) == [("g", [0]), ("f", [1]), ("g", [2]), ("f", [3]), ("g", [4])]


def test_a_chain_of_one_function_is_one_message() -> None:
    outbox = Outbox()
    for id_ in range(4):
        outbox.add_call(F, Call(id_, b"", (id_ - 1,) if id_ else ()))
    assert calls(outbox) == [("f", [0, 1, 2, 3])]


def test_calls_of_an_actor_keep_their_order() -> None:
    options = TaskOptions(name="m")
    one, same, other = (ActorGroup(code, options, None, 7) for code in (b"m", b"m", b"n"))
    far = ActorGroup(b"m", options, None, 8)
    outbox = Outbox()
    for id_, group in enumerate([one, far, same, far, other, far, one]):
        outbox.add_call(group, Call(id_, b""))
    assert calls(outbox) == [(7, [0, 2]), (8, [1, 3]), (7, [4]), (8, [5]), (7, [6])]


def test_messages_close_batches() -> None:
    outbox = Outbox()
    outbox.add_call(F, Call(0, b""))
    outbox.add(m.Detach())
    outbox.add_call(F, Call(1, b""))
    outbox.add_batch(F, [Call(2, b"")])
    assert calls(outbox) == [("f", [0]), ("Detach", []), ("f", [1]), ("f", [2])]


def test_it_says_when_it_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "BATCH_CALLS", 4)
    monkeypatch.setattr(ledger, "BATCH_BYTES", 100)
    outbox = Outbox()
    assert [outbox.add_call(group, Call(0, b"")) for group in (F, G, F, G)] == [False, False, False, True]
    outbox.take()
    assert outbox.add_call(F, Call(0, b"x" * 101))
    assert not outbox.add_call(F, Call(1, b"x" * 60))
    assert not outbox.add_call(F, Call(2, b"x" * 60))
    assert calls(outbox) == [("f", [0]), ("f", [1]), ("f", [2])]


def test_values_travel_together_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "BATCH_BYTES", 100)
    outbox = Outbox()
    for id_ in range(3):
        outbox.put(Result(id_, b"x" * 45))
    outbox.add(m.Detach())
    outbox.put(Result(3, b""))
    outbox.put(Result(4, b""))
    found = [[value.id for value in each.objects] for each in outbox.take() if isinstance(each, m.PutObjects)]
    assert found == [[0, 1], [2], [3, 4]]


def test_a_new_link_gets_the_replay_and_what_that_does_not_hold() -> None:
    outbox = Outbox()
    outbox.add_call(F, Call(0, b""))
    outbox.put(Result(3, b""))
    outbox.add(m.Release(objects=[3]))
    outbox.add(m.KillActor(actor=1))
    outbox.restart([m.Detach()])
    assert calls(outbox) == [("Detach", []), ("KillActor", [])]
