"""Functions by content."""

from __future__ import annotations

import abc
import functools
import linecache
import math
import random
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fibernb import serialize

NOTEBOOK = """
import math, functools, collections

words = {"alpha", "beta", "gamma", "delta"}
table = {"x": [1, 2], "y": "z"}

def helper(n):
    return n + len(words)

def uses_all(n, default=(1, {"a": 2})):
    def inner():
        return helper(n) + math.floor(n) + table["x"][0]
    return inner() + default[0]

class Model:
    scale = 2
    names = frozenset(words)
    def __init__(self, n):
        self.n = n
    def run(self):
        return helper(self.n) * self.scale

class Child(Model):
    def run(self):
        return super().run() + 1

@functools.lru_cache(maxsize=16)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def even(n):
    return n == 0 or odd(n - 1)

def odd(n):
    return n != 0 and even(n - 1)

counter = lambda: collections.Counter("aab")
bound = Child(3).run
partial = functools.partial(uses_all, 3, default=(5,))
"""


@pytest.fixture
def notebook() -> Any:
    """A module that, like that of a notebook, is in no file."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(NOTEBOOK, "<notebook>", "exec"), namespace)
    return types.SimpleNamespace(**namespace)


NAMES = ["helper", "uses_all", "Model", "Child", "fib", "even", "counter", "bound", "partial"]


@pytest.mark.parametrize("name", NAMES)
def test_the_digest_of_an_unchanged_function_does_not_change(notebook: Any, name: str) -> None:
    function = getattr(notebook, name)
    digests = set()
    for _ in range(5):
        digests.add(serialize.dumps_function(function)[0])
        use(notebook)  # specialises the bytecode, interns strings, fills caches
        serialize.dumps([notebook.Child(1), notebook.even])
    assert len(digests) == 1
    assert {len(digest) for digest in digests} == {16}


def use(notebook: Any) -> None:
    for _ in range(20):
        notebook.uses_all(3)
        notebook.Child(2).run()
        notebook.fib(5)
        notebook.even(4)
        notebook.bound()


def test_the_digest_follows_code_and_what_it_reads(notebook: Any) -> None:
    before = serialize.dumps_function(notebook.uses_all)[0]
    notebook.uses_all.__globals__["table"]["x"][0] = 7
    changed = serialize.dumps_function(notebook.uses_all)[0]
    assert changed != before
    exec("def helper(n): return 0", notebook.uses_all.__globals__)
    assert serialize.dumps_function(notebook.uses_all)[0] not in (before, changed)


@pytest.mark.parametrize(
    ("name", "args", "value"),
    [("uses_all", (3,), 12), ("fib", (20,), 6765), ("even", (10,), True), ("bound", (), 15), ("partial", (), 16)],
)
def test_functions_run_after_the_journey(notebook: Any, name: str, args: tuple[Any, ...], value: object) -> None:
    function = serialize.loads_function(serialize.dumps_function(getattr(notebook, name))[1])
    assert function(*args) == value


def test_importable_functions_go_by_reference() -> None:
    assert serialize.loads_function(serialize.dumps_function(math.sin)[1]) is math.sin
    assert serialize.loads_function(serialize.dumps_function(traceback.format_exc)[1]) is traceback.format_exc
    assert len(serialize.dumps_function(traceback.format_exc)[1]) < 100


def test_functions_of_the_random_modules_do_not_take_their_generator_along() -> None:
    for function in (random.random, random.gauss, np.random.rand, np.random.normal):
        assert serialize.loads(serialize.dumps([function]))[0] == function
        assert len(serialize.dumps(function)) < 200
    own = random.Random(1)
    assert serialize.loads(serialize.dumps(own.random))() == own.random()
    assert serialize.loads(serialize.dumps([1, 2].count))(2) == 1


def test_an_importable_cached_function_goes_by_reference() -> None:
    assert serialize.loads(serialize.dumps(cached_here)) is cached_here


@functools.cache
def cached_here() -> int:
    return 1


def compiled(source: str, name: str, filename: str = "<other>") -> Callable[..., Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, filename, "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function


def test_names_that_are_missing_are_looked_up_where_the_function_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    function = compiled("def f(): return only_there + len([1])", "f")
    copy = serialize.loads_function(serialize.dumps_function(function)[1])
    with pytest.raises(NameError, match="only_there"):
        copy()
    monkeypatch.setitem(sys.modules["__main__"].__dict__, "only_there", 41)
    assert copy() == 42
    again = serialize.loads_function(serialize.dumps_function(copy)[1])
    assert again() == 42


def test_functions_of_one_pickle_share_their_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "n = 0\ndef up():\n    global n\n    n += 1\ndef get():\n    return n\ndef late():\n    return n + there"
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(source, namespace)
    up, get, late = serialize.loads(serialize.dumps([namespace["up"], namespace["get"], namespace["late"]]))
    up()
    assert get() == 1
    monkeypatch.setitem(sys.modules["__main__"].__dict__, "there", 10)
    assert late() >= 10


def test_functions_that_lack_nothing_have_ordinary_globals() -> None:
    function = serialize.loads_function(serialize.dumps_function(compiled("def f(x): return len(x.items)", "f"))[1])
    assert type(function.__globals__) is dict


def test_source_lines_travel_with_functions_of_the_notebook() -> None:
    source = "x = 1\n\ndef f():\n    a = 1\n    raise ValueError('told you')\n"
    filename = "<cell for source lines>"
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    _, code = serialize.dumps_function(compiled(source, "f", filename))
    del linecache.cache[filename]
    with pytest.raises(ValueError, match="told you") as caught:
        serialize.loads_function(code)()
    text = "".join(traceback.format_tb(caught.value.__traceback__))
    assert "raise ValueError('told you')" in text
    assert linecache.getline(filename, 4) == "    a = 1\n"
    del linecache.cache[filename]


def test_abstract_classes() -> None:
    class Base(abc.ABC):
        @abc.abstractmethod
        def f(self) -> int: ...

    class Derived(Base):
        def f(self) -> int:
            return 5

    assert serialize.loads(serialize.dumps(Derived))().f() == 5
    with pytest.raises(TypeError, match="abstract"):
        serialize.loads(serialize.dumps(Base))()


def test_content_digests_tell_content_apart() -> None:
    assert serialize.content_digest(b"a") == serialize.content_digest(b"a") != serialize.content_digest(b"b")


def counters(count: int) -> tuple[Callable[[], None], Callable[[], int]]:
    def up() -> None:
        nonlocal count
        count += 1 if later else 0

    later = True
    return up, lambda: count


def test_functions_of_one_pickle_share_what_they_have_captured() -> None:
    up, look = serialize.loads(serialize.dumps(counters(5)))
    up()
    assert look() == 6
    again = serialize.loads(serialize.dumps({"look": look, "nested": [up]}))
    again["nested"][0]()
    assert (again["look"](), look()) == (7, 6)


def test_functions_of_two_pickles_do_not() -> None:
    up, look = counters(5)
    serialize.loads(serialize.dumps(up))()
    assert (look(), serialize.loads(serialize.dumps(look))()) == (5, 5)
