"""Functions that mention what cannot be pickled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from fibernb import serialize
from fibernb.errors import SerializationError
from fibernb.notebook.forgiving import ForgivingPickler
from fibernb.notebook.standin import StandIn
from fibernb.serialize import Apart


def defined(source: str, **known: object) -> dict[str, Any]:
    """What a notebook has after such a cell."""
    namespace: dict[str, Any] = {"__name__": "__main__", "lock": threading.Lock(), **known}
    exec(source, namespace)
    return namespace


def sent(value: object) -> Any:
    return serialize.loads(Apart(value, "f", ForgivingPickler).whole())


def test_the_names_that_it_can_do_without() -> None:
    f = defined("def f(locks): return lock.acquire() if locks else number\nnumber = 5")["f"]
    with pytest.raises(SerializationError):
        Apart(f)
    loaded = sent(f)
    assert loaded(False) == 5
    assert type(loaded.__globals__["lock"]) is StandIn
    with pytest.raises(SerializationError, match="'lock' could not be sent from the notebook: lock: cannot pickle"):
        loaded(True)


def test_what_it_has_captured() -> None:
    make = defined("def make(l, n):\n    def f(locks): return l.acquire() if locks else n\n    return f")["make"]
    loaded = sent(make(threading.Lock(), 3))
    assert loaded(False) == 3
    with pytest.raises(SerializationError, match="'a variable that a function has captured' could not be sent"):
        loaded(True)


def test_a_function_that_captures_itself() -> None:
    source = "def make(l):\n    def f(n): return f(n - 1) if n > 0 else ('end' if n == 0 else l)\n    return f"
    loaded = sent(defined(source)["make"](threading.Lock()))
    assert loaded(3) == "end"
    assert type(loaded(-1)) is StandIn


def test_a_captured_variable_without_a_value() -> None:
    source = "def make():\n    def f(locks): return lock if locks else later\n    return f\n    later = 1"
    loaded: Callable[[bool], object] = sent(defined(source)["make"]())
    with pytest.raises(NameError):
        loaded(False)


def test_a_helper_and_data() -> None:
    source = "def g(locks): return lock.acquire() if locks else len(data)\ndef f(locks): return g(locks) + data['a']"
    loaded = sent(defined(source, data={"a": 1})["f"])
    assert loaded(False) == 2
    with pytest.raises(SerializationError):
        loaded(True)


def test_equal_functions_have_equal_pickles() -> None:
    f = defined("def f(locks): return lock if locks else 1")["f"]
    assert isinstance(f, FunctionType)
    assert Apart(f, "f", ForgivingPickler).digest() == Apart(f, "f", ForgivingPickler).digest()


def test_what_is_no_function_is_not_forgiven() -> None:
    with pytest.raises(SerializationError, match=r"f\['a'\]"):
        sent({"a": threading.Lock()})
