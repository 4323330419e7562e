from __future__ import annotations

import io
import threading

from fibernb.util import inspect_serializability


def test_what_can_be_pickled() -> None:
    out = io.StringIO()
    assert inspect_serializability([1, 2], name="numbers", print_file=out) == (True, set())
    assert out.getvalue() == "numbers can be pickled\n"


def test_the_parts_that_cannot_are_named() -> None:
    lock = threading.Lock()

    def work() -> object:
        return lock

    out = io.StringIO()
    ok, failures = inspect_serializability(work, print_file=out)
    assert not ok
    (failure,) = failures
    assert failure.obj is lock
    assert "lock" in failure.name
    assert "work cannot be pickled" in out.getvalue()


def test_depth_is_bounded_and_what_has_no_hash_is_told() -> None:
    ok, failures = inspect_serializability([[threading.Lock()]], name="x", depth=1, print_file=io.StringIO())
    assert not ok
    (failure,) = failures
    assert failure.name == "x[0]"
