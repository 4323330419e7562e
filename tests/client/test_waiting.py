from __future__ import annotations

import threading
from typing import Any

import pytest

import fibernb as fnb
from fibernb.client.session import Session
from fibernb.client.waiting import _Enough
from tests.client.fake_hub import FakeHub
from tests.client.test_session import double


def test_lists_within_lists(session: Session, hub: FakeHub) -> None:
    a, b, c = double.map([1, 2, 3])
    assert fnb.get([[a, b], (c,), [], a]) == [[2, 4], [6], [], 2]
    assert fnb.get([]) == []


def test_many(session: Session, hub: FakeHub) -> None:
    assert fnb.get(double.map(range(10_000))) == list(range(0, 20_000, 2))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (5, "not int: 5"),
        ("text", "not str"),
        ([5], "the list holds int: 5. Only what remote"),
        ([["x"]], "the list holds str: 'x'"),
        (None, "NoneType"),
        (double, r"not RemoteFunction: .*double>. Its call is missing: .remote\(...\) gives a reference"),
        (double.remote, r"not method: .*Its call is missing"),
        ([double], "the list holds RemoteFunction: .*Its call is missing"),
    ],
)
def test_get_names_what_is_no_reference(session: Session, given: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        fnb.get(given)


def test_wait_names_what_is_wrong(session: Session) -> None:
    ref, other = double.map([1, 2])
    wrong: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (ref, {}, TypeError, r"wait\(\[ref\]\)"),
        ({ref}, {}, TypeError, "takes a list"),
        ([ref, 7], {}, TypeError, "the list holds int: 7"),
        ([double], {}, TypeError, "the list holds RemoteFunction: .*Its call is missing"),
        ([ref, other, ref], {}, ValueError, r"twice: pass list\(dict.fromkeys\(refs\)\)"),
        ([ref, other], {"num_returns": 3}, ValueError, "cannot be 3: the list holds 2"),
        ([ref], {"num_returns": 0}, ValueError, "cannot be 0"),
        ([ref], {"num_returns": 1.0}, ValueError, "cannot be 1.0"),
        ([ref], {"timeout": -1}, ValueError, "cannot be -1"),
    ]
    for refs, options, kind, words in wrong:
        with pytest.raises(kind, match=words):
            fnb.wait(refs, **options)


def test_a_thousand_one_by_one(session: Session, hub: FakeHub) -> None:
    left = double.map(range(1000))
    done = []
    while left:
        ready, left = fnb.wait(left)
        done += ready
    assert sorted(fnb.get(done)) == list(range(0, 2000, 2))


def test_most_of_a_thousand(session: Session, hub: FakeHub) -> None:
    refs = double.map(range(1000))
    ready, left = fnb.wait(refs, num_returns=900)
    assert (len(ready), len(left)) == (900, 100)
    assert [ref for ref in refs if ref in set(ready)] == ready
    assert [ref for ref in refs if ref in set(left)] == left


def test_waiting_for_what_comes_later(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    refs = double.map(range(10))
    threading.Timer(0.05, hub.release_held).start()
    assert fnb.wait(refs, num_returns=10) == (refs, [])


def test_no_look_before_enough_has_arrived(session: Session) -> None:
    class Ref:
        def __init__(self) -> None:
            self.looks = 0
            self.ready = False

        def done(self) -> bool:
            self.looks += 1
            return self.ready

    refs: list[Any] = [Ref() for _ in range(10)]
    arrived = 0
    enough = _Enough(refs, 8, lambda: arrived)
    for _ in range(100):
        assert not enough()
    assert refs[0].looks == 1
    arrived = 7
    assert not enough()
    assert refs[0].looks == 1
    for ref in refs[:8]:
        ref.ready = True
    arrived = 8
    assert enough()
    assert refs[0].looks == 2


def test_several_values_of_one_task_arrive_together(session: Session, hub: FakeHub) -> None:
    hub.hold = True
    pair = fnb.remote(num_returns=2)(lambda x: (x, -x))
    refs = [ref for x in range(5) for ref in pair.remote(x)]
    threading.Timer(0.05, hub.release_held).start()
    assert fnb.wait(refs, num_returns=9, timeout=10) == (refs[:9], refs[9:])
