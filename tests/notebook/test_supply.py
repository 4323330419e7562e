"""The names of a notebook on its engines: cells of a real kernel, one after the other, and what ranks 0 and 1 make of
them.

A step is a cell of the notebook, or a body for the engines together with the values that it is to have there: one text
if they are alike, or the name of the error that it must raise.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.notebook.kernel import Kernel, running_kernel


class On(NamedTuple):
    """A body that runs on both engines. ``values``: of rank 0 and of rank 1, or of both."""

    body: str
    values: str | tuple[str, str] = ""
    fails: str = ""
    options: str = ""


class Here(NamedTuple):
    """A cell of the notebook with its value."""

    source: str
    value: str


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with running_kernel(tmp_path_factory.mktemp("names"), FIBERNB_PROGRESS="0") as started:
        started.run("%fiber scale 2\nimport asyncio, contextlib, enum, functools, threading\nimport numpy as np")
        yield started


def follow(kernel: Kernel, steps: list[str | On | Here]) -> None:
    for step in steps:
        if isinstance(step, str):
            kernel.run(step)
        elif isinstance(step, Here):
            assert kernel.run(step.source).result == step.value
        elif step.fails:
            assert kernel.fail(f"%%parallel {step.options}\n{step.body}").error == step.fails
        else:
            result = kernel.run(f"%%parallel {step.options}\n{step.body}").result
            assert result == shown(step.values), step.body


def shown(values: str | tuple[str, str]) -> str:
    if isinstance(values, tuple):
        return "\n".join(f"[{rank}] {value}" for rank, value in enumerate(values))
    return f"[0-1] {values}" if values else ""


CLOSURES: dict[str, list[str | On | Here]] = {
    "a captured value": [
        "def adder(k):\n    def add(x): return x + k\n    return add\nadd = adder(3)",
        On("add(rank)", ("3", "4")),
        "add = adder(5)",
        On("add(rank)", ("5", "6")),
    ],
    "state of its own": [
        "def recorder(seen):\n    def note(x):\n        seen.append(x)\n        return seen\n    return note",
        "note = recorder([])\nnote('here')",
        On("note(rank)", ("['here', 0]", "['here', 1]")),
        On("note(rank)", ("['here', 0, 0]", "['here', 1, 1]")),
        Here("note('again')", "['here', 'again']"),
        On("note(rank)", ("['here', 'again', 0]", "['here', 'again', 1]")),
    ],
    "functions over one variable": [
        "def counter(n):\n    def up():\n        nonlocal n\n        n += 1\n    return up, lambda: n",
        "up, look = counter(0)\nup()",
        On("up()\nlook()", "2"),
        On("up()\nlook()", "3"),
        Here("look()", "1"),
        "up()",
        On("up()\nlook()", "3"),
    ],
    "nested functions": [
        "def outer():\n    def middle():\n        def inner(): return depth\n        return inner\n    return middle",
        "depth = 9",
        On("outer()()()", "9"),
        "depth = 10",
        On("outer()()()", "10"),
    ],
    "lambdas and defaults": [
        "base = 4\nsquare = lambda x, plus=base: x * x + plus\nbase = 0",
        On("square(3), (lambda x=base: x)()", "(13, 0)"),
    ],
    "partial functions and caches": [
        "double = functools.partial(lambda k, x: k * x, 2)",
        "@functools.cache\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)",
        On("double(21), fib(30)", "(42, 832040)"),
    ],
    "generators": [
        "count = 3\ndef numbers():\n    for i in range(count): yield i * count",
        On("list(numbers()), sum(n for n in numbers())", "([0, 3, 6], 9)"),
    ],
    "coroutines": [
        "pause = 0\nasync def slow(x):\n    await asyncio.sleep(pause)\n    return x * 2",
        On("await slow(2), [await slow(i) for i in range(3)]", "(4, [0, 2, 4])"),
        On("await asyncio.gather(slow(1), slow(5))", "[2, 10]"),
    ],
}

SCOPES: dict[str, list[str | On | Here]] = {
    "comprehensions": [
        "xs = [1, 2, 3]\nk = 2",
        On("[x * k for x in xs], {x for x in xs if x > k}, {x: k for x in xs}", "([2, 4, 6], {3}, {1: 2, 2: 2, 3: 2})"),
        On("[[x * y for y in xs] for x in xs if x == k]", "[[2, 4, 6]]"),
        On("sum(x * y for x in xs for y in range(k))", "6"),
    ],
    "a comprehension's variable is its own": [
        "i = 'notebook'",
        On("squares = [i * i for i in range(3)]\nsquares, i", "([0, 1, 4], 'notebook')"),
    ],
    "class bodies": [
        "limit = 4\nfactor = 10\nclass Base:\n    def scaled(self): return self.limit * factor",
        On(
            "class A(Base):\n    limit = limit\n    below = [i for i in range(limit)]\nA().scaled(), A.below",
            "(40, [0, 1, 2, 3])",
        ),
    ],
    "classes of the notebook": [
        (
            "offset = 5\nclass P:\n    def f(self): return 1\n"
            "class Q(P):\n    def f(self): return super().f() + offset\n"
            "    @property\n    def p(self): return offset\n    @staticmethod\n    def s(): return offset\n"
            "    @classmethod\n    def c(cls): return cls.s()"
        ),
        On("Q().f(), Q().p, Q.s(), Q.c()", "(6, 5, 5, 5)"),
        "offset = 6",
        On("Q().f()", "7"),
    ],
    "instances are of the same class": [
        "class Color(enum.Enum):\n    RED = 1\nclass Box:\n    def __init__(self, a): self.a = a",
        "box, red = Box(1), Color.RED",
        On("isinstance(box, Box), red is Color.RED", "(True, True)"),
        "made = get_ipython().run_cell_magic('parallel', '', 'Box(rank), Color.RED')",
        Here("[(type(b) is Box, b.a, c is Color.RED) for b, c in made]", "[(True, 0, True), (True, 1, True)]"),
    ],
    "decorators": [
        "times = 2\ndef doubled(f):\n    @functools.wraps(f)\n    def g(*a): return f(*a) * times\n    return g",
        "def repeated(n): return lambda f: lambda *a: [f(*a)] * n\n@doubled\ndef plain(x): return x + 1",
        On("@doubled\n@repeated(times)\ndef h(x): return x\nh(7)", "[7, 7, 7, 7]"),
        On("plain(1), plain.__name__", "(4, 'plain')"),
    ],
    "f-strings": [
        "width, value = 7, 3.14159",
        On("f'{value:{width}.2f}|{value!r}|{width=}'", "'   3.14|3.14159|width=7'"),
        On("""f"{'-'.join(f'{width}{j}' for j in range(2))}\"""", "'70-71'"),
    ],
    "patterns, walruses and unpacking": [
        "pair, more = (1, 2), {'c': 3}\ndef three(a, b, c): return a + b + c",
        On("match pair:\n    case (a, b): s = a + b\n(t := s) + t, three(*pair, **more)", "(6, 6)"),
        On("first, *rest = pair\nfirst, rest", "(1, [2])"),
    ],
    "with, try and errors of the notebook": [
        "class Mine(Exception): pass\nvalue = 8\n@contextlib.contextmanager\ndef lent():\n    yield value",
        On("with lent() as v:\n    try:\n        raise Mine('x')\n    except Mine as e: r = str(e)\nr, v", "('x', 8)"),
        On("raise Mine('y')", fails="Mine"),
    ],
    "annotations": [
        "Alias = list[int]",
        On(
            "def typed(a: Alias = ()) -> Alias: return list(a)\ntyped((1,)), typed.__annotations__['a'] == Alias",
            "([1], True)",
        ),
    ],
    "the engine's own syntax": [
        "name = 'n'",
        On("out = !echo {name} $name\n%time twice = name * 2\nout[0], twice", "('n n', 'nn')"),
    ],
    "items of --each": [
        "scale = 10",
        Here("get_ipython().run_cell_magic('parallel', '--each x=[1,2]', 'x * scale + fact(3)')", "[16, 26]"),
        Here("get_ipython().run_cell_magic('parallel', '--each rank=[7,8]', 'rank, size')", "[(7, 2), (8, 2)]"),
        On("rank", ("0", "1")),
    ],
}

RECURSION: dict[str, list[str | On | Here]] = {
    "recursion": ["def fact(n): return 1 if n < 2 else n * fact(n - 1)", On("fact(5)", "120")],
    "mutual recursion": [
        "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n != 0 and even(n - 1)",
        On("even(10), odd(7), even(3)", "(True, True, False)"),
        "def odd(n): return 'redefined'",
        On("even(3)", "'redefined'"),
    ],
    "redefinition": [
        "def f(): return 1\nclass C:\n    v = 1\nc = C()",
        On("f(), C.v, c.v, type(c) is C", "(1, 1, 1, True)"),
        "def f(): return 2\nclass C:\n    v = 2",
        On("f(), C().v, c.v, type(c) is C", "(2, 2, 1, False)"),
    ],
    "a helper of a helper": [
        "def low(): return 'old'\ndef mid(): return low()\ndef high(): return mid()",
        On("high()", "'old'"),
        "def low(): return 'new'",
        On("high()", "'new'"),
    ],
    "data that contains itself": ["ring = []\nring.append(ring)", On("ring[0] is ring", "True")],
}

IMPORTS: dict[str, list[str | On | Here]] = {
    "of the notebook, with aliases": [
        "import os.path as osp, math\nfrom collections import OrderedDict as Ordered\nfrom math import sqrt as root",
        On(
            "osp.join('a', 'b'), Ordered(a=1)['a'], root(4.0), math.floor(2.5), int(np.arange(3).sum())",
            "('a/b', 1, 2.0, 2, 3)",
        ),
    ],
    "of a package": ["import os", On("os.path.basename('a/b'), os.sep", "('b', '/')")],
    "of a cell": [
        On("import json as j\nfrom os import path as p\nj.dumps(1), p.sep", "('1', '/')"),
        On("j.dumps(2)", "'2'"),
        Here("'j' in globals()", "False"),
    ],
    "within a function": [
        "def late():\n    import string as s\n    return s.digits",
        On("late()", "'0123456789'"),
    ],
}

ASSIGNMENTS: dict[str, list[str | On | Here]] = {
    "x += 1": [
        "x = 1",
        On("x += 1"),
        On("x", "2"),
        On("x += rank\nx", ("2", "3")),
        "x = 10",
        On("x += 1\nx", "11"),
        Here("x", "10"),
    ],
    "x += 1 in a function": ["x = 5", On("def up():\n    global x\n    x += 1\nup()\nup()\nx", "7"), On("x", "7")],
    "del x": ["x = 20", On("del x\n'x' in globals()", "False"), On("x", fails="NameError"), "x = 21", On("x", "21")],
    "read, then assigned": ["x = 30", On("y = x\nx = 31\ny", "30"), On("x", "31"), Here("x", "30")],
    "perhaps assigned": [
        "x = 'notebook'",
        On("if rank == 0: x = 'engine'\nx", ("'engine'", "'notebook'")),
        On("x", ("'engine'", "'notebook'")),
        On("for x in []: pass\ntry:\n    x = 1 / 0\nexcept ZeroDivisionError: pass\nx", ("'engine'", "'notebook'")),
    ],
    "only assigned": ["z = [threading.Lock()]", On("z = 5\nz", "5"), On("z", "5")],
    "deleted in the notebook": ["x = 40", On("x", "40"), "del x", On("x", "40")],
    "a builtin redefined, and itself again": [
        "sum = lambda xs: 'mine'",
        On("sum([1])", "'mine'"),
        "del sum",
        On("sum([1])", "1"),
        "sum = 5",
        On("sum", "5"),
        "import builtins\nsum = builtins.sum",
        On("sum([2])", "2"),
    ],
    "rank and size": [
        "rank, size = 'mine', 'mine'",
        On("rank, size", ("(0, 2)", "(1, 2)")),
        On("rank, size", "('mine', 2)", options="--push rank"),
        On("rank", ("0", "1")),
        "del rank, size",
    ],
    "pushed by name, and not at all": [
        "x, y = 50, 51",
        On("eval('x')", "50", options="--push x"),
        On("unpushed", fails="NameError", options="--no-push"),
    ],
}

CHANGES: dict[str, list[str | On | Here]] = {
    "lists and dicts": [
        "items, table = [1], {'a': [1]}",
        On("items, table", "([1], {'a': [1]})"),
        "items.append(2)\ntable['a'].append(2)",
        On("items, table", "([1, 2], {'a': [1, 2]})"),
    ],
    "objects": [
        "class Node: pass\nnode = Node()\nnode.v, node.inner = 1, {'deep': [Node()]}",
        On("node.v", "1"),
        "node.v = 2",
        On("node.v", "2"),
        "node.inner['deep'][0].w = 3",
        On("node.inner['deep'][0].w", "3"),
    ],
    "attributes of classes and functions": [
        "class K:\n    v = 1\ndef g(): return g.calls\ng.calls = 1",
        On("K.v, g()", "(1, 1)"),
        "K.v = 2\ng.calls = 2",
        On("K.v, g()", "(2, 2)"),
    ],
    "two names of one object": [
        "first = [1]\nsecond, inside = first, {'list': first}",
        On("first.append(2)\nsecond is first, inside", "(True, {'list': [1, 2]})"),
        "second.append(3)",
        On("first, second is inside['list'] is first", "([1, 3], True)"),
        "second = [0]",
        On("first, second", "([1, 3], [0])"),
    ],
    "a model and its optimizer": [
        "class Model:\n    def __init__(self): self.weights = np.zeros(50_000)",
        "class Optimizer:\n    def step(self): self.weights += self.rate",
        "model, optimizer = Model(), Optimizer()\noptimizer.weights, optimizer.rate = model.weights, 2.0",
        On("optimizer.step()\nfloat(model.weights.sum())", "100000.0"),
        On("optimizer.step()\nfloat(model.weights.sum())", "200000.0"),
        "%fiber restart 0",
        On("optimizer.step()\nfloat(model.weights.sum())", ("100000.0", "300000.0")),
        "optimizer.rate, model.weights[:] = 1.0, 1",
        On("optimizer.step()\nfloat(model.weights.sum())", "100000.0"),
    ],
    "what functions read": [
        "setting = {'k': 1}\ndef read(): return setting['k']",
        On("read()", "1"),
        "setting['k'] = 2",
        On("read()", "2"),
    ],
    "arrays, small and large": [
        "small, large = np.zeros(3), np.zeros(300_000)",
        On("float(small.sum()), float(large.sum())", "(0.0, 0.0)"),
        "small[1] = large[7] = 5",
        On("float(small.sum()), float(large.sum())", "(5.0, 5.0)"),
    ],
    "nothing is sent that has not changed": [
        "big = np.zeros(300_000)",
        On("big[0] = rank + 1\nfloat(big[0])", ("1.0", "2.0")),
        "other = 1",
        On("float(big[0]), other", ("(1.0, 1)", "(2.0, 1)")),
    ],
}

UNPICKLABLE: dict[str, list[str | On | Here]] = {
    "mentioned in a branch": [
        "lock = threading.Lock()",
        On("if rank > 5: lock.acquire()\n'fine'", "'fine'"),
        On("with lock: pass", fails="SerializationError"),
        On("lock", fails="SerializationError"),
    ],
    "in data": [
        "settings = {'n': 3, 'guard': lock}\nclass Holder: pass\nholder = Holder()\nholder.lock, holder.n = lock, 1",
        On("if rank > 5: settings, holder\n'fine'", "'fine'"),
        On("settings['n']", fails="SerializationError"),
        On("holder.n", fails="SerializationError"),
        "settings['guard'] = holder.lock = None",
        On("settings['n'], holder.n", "(3, 1)"),
    ],
    "in the branch of a function": [
        "def guarded(locks): return lock.acquire() if locks else 'free'",
        On("guarded(False)", "'free'"),
        On("guarded(True)", fails="SerializationError"),
        "def guarded(locks): return lock.acquire() if locks else 'newer'",
        On("guarded(False)", "'newer'"),
    ],
    "captured by a function": [
        "def with_lock(l):\n    n = 3\n    return lambda locks: l.acquire() if locks else n\ncaught = with_lock(lock)",
        On("caught(False)", "3"),
        On("caught(True)", fails="SerializationError"),
    ],
    "in a helper's helper, and in a method": [
        "class Guard:\n    n = 5\n    def go(self, locks): return lock.locked() if locks else self.n",
        "def outer(locks): return guarded(locks), Guard().go(locks)",
        On("outer(False)", "('newer', 5)"),
        On("outer(True)", fails="SerializationError"),
        On("Guard().go(True)", fails="SerializationError"),
    ],
    "in functions that call each other": [
        "def ping(n): return pong(n - 1) if n else lock\ndef pong(n): return ping(n - 1) if n else 'end'",
        On("ping(3)", "'end'"),
        On("ping(2)", fails="SerializationError"),
    ],
    "a generator": [
        "running = (i for i in range(3))",
        On("1 if rank < 5 or running else 2", "1"),
        On("list(running)", fails="SerializationError"),
        Here("list(running)", "[0, 1, 2]"),
    ],
    "until it has another value": ["lock = 3", On("lock", "3")],
}

NAMESPACES: dict[str, list[str | On | Here]] = {
    "a function sees what only the engine has": [
        "def seen(): return only_there * 2",
        On("only_there = rank + 1"),
        On("seen()", ("2", "4")),
        On("only_there = 10\nseen()", "20"),
        Here("'only_there' in globals()", "False"),
    ],
    "so do methods, nested functions, lambdas and helpers": [
        "class There:\n    def m(self): return only_there",
        "def nested(): return (lambda: [only_there for _ in range(1)])()",
        "def helper(): return only_there\ndef helped(): return helper() + 1",
        On("There().m(), nested(), helped()", "(10, [10], 11)"),
    ],
    "a function sees functions of the engine": [
        "def asks(x): return answer(x) + 1",
        On("def answer(x): return x * 100\nasks(2)", "201"),
        On("def answer(x): return -x\nasks(2)", "-1"),
    ],
    "what the notebook has comes first": [
        "own = 'notebook'\ndef reads(): return own",
        On("own = 'engine'\nreads(), own", "('notebook', 'engine')"),
    ],
    "what neither has is missing": ["def lost(): return nowhere_at_all", On("lost()", fails="NameError")],
    "a task sees it as well": [
        "import fibernb as fnb\n@fnb.remote\ndef task(): return only_there",
        Here("fnb.get([task.remote() for _ in range(4)])", "[10, 10, 10, 10]"),
    ],
}

ALL = [RECURSION, CLOSURES, SCOPES, IMPORTS, ASSIGNMENTS, CHANGES, UNPICKLABLE, NAMESPACES]


@pytest.mark.parametrize("steps", [pytest.param(steps, id=name) for group in ALL for name, steps in group.items()])
def test_names(kernel: Kernel, steps: list[str | On | Here]) -> None:
    follow(kernel, steps)


def test_an_unpicklable_name_is_told_with_the_path(kernel: Kernel) -> None:
    kernel.run("lock = threading.Lock()\nbox = {'inner': [lock]}\ndef touch(): return box['inner']")
    reply = kernel.fail("%%parallel\nbox['inner']")
    assert reply.text.startswith("'box' could not be sent from the notebook: box['inner'][0]: cannot pickle")
    reply = kernel.fail("%%parallel\ntouch()")
    assert reply.text.startswith("'box' could not be sent from the notebook: box['inner'][0]: cannot pickle")
    assert "in touch" in "".join(reply.of("error")[0]["traceback"])


# ---- large values ---------------------------------------------------------------------------------------

MEMORY = """%%parallel
import re
kilobytes = re.findall(r"^(Pss|Private_Dirty):\\s+(\\d+)", open("/proc/self/smaps_rollup").read(), re.M)
[int(amount) // 1024 for _, amount in kilobytes]"""
SIZE_MB = 80  # of the array below
SLACK_MB = 16  # that other tests may have left, and may take


def memory_mb(kernel: Kernel) -> list[tuple[int, int]]:
    """By rank: its proportional share of memory, and what it has for itself."""
    values = kernel.run(f"r = get_ipython().run_cell_magic('parallel', '', {MEMORY.partition(chr(10))[2]!r})\nlist(r)")
    found = re.findall(r"\[(\d+), (\d+)\]", values.result)
    return [(int(share), int(own)) for share, own in found]


def stored_mb(kernel: Kernel) -> float:
    source = "import fibernb.client.current as c\nround(c.require().store.describe().used_bytes / 2**20)"
    return float(kernel.run(source).result)


def test_a_large_array_is_in_memory_once(kernel: Kernel) -> None:
    before, stored = memory_mb(kernel), stored_mb(kernel)
    kernel.run(f"large = np.ones({SIZE_MB} * 2**17)")
    assert kernel.run("%%parallel\nfloat(large.sum())").result == f"[0-1] {SIZE_MB * 2**17:.1f}"
    assert abs(stored_mb(kernel) - stored - SIZE_MB) < SLACK_MB
    for (share, own), (share_before, own_before) in zip(memory_mb(kernel), before, strict=True):
        assert own - own_before < SIZE_MB / 2
        assert share - share_before < SIZE_MB * 0.75  # two engines, the store and the notebook map it
    check_that_it_can_be_changed(kernel)
    check_that_new_engines_have_it(kernel, stored)


def check_that_it_can_be_changed(kernel: Kernel) -> None:
    assert kernel.run("%%parallel\nlarge[0] = rank\nfloat(large[0]), float(large[1])").result == (
        "[0] (0.0, 1.0)\n[1] (1.0, 1.0)"
    )
    assert all(own < SIZE_MB / 2 for _, own in memory_mb(kernel)), "a page is copied, not the array"
    assert kernel.run("%%parallel\nlarge += 1\nfloat(large[0]), float(large[-1])").result == (
        "[0] (1.0, 2.0)\n[1] (2.0, 2.0)"
    )
    assert kernel.run("float(large[0]), float(large[-1])").result == "(1.0, 1.0)"


def check_that_new_engines_have_it(kernel: Kernel, stored: float) -> None:
    kernel.run("%fiber restart 0")
    assert kernel.run("%%parallel\nfloat(large[0])").result == "[0] 1.0\n[1] 2.0"
    kernel.run("%fiber scale 3")
    assert kernel.run("%%parallel -w 2\nfloat(large[0])").result == "[2] 1.0"
    assert abs(stored_mb(kernel) - stored - SIZE_MB) < SLACK_MB
    kernel.run("%fiber scale 2\nlarge[:2] = 7")
    assert kernel.run("%%parallel\nfloat(large[:3].sum())").result == "[0-1] 15.0"
    kernel.run("large = 0")
    assert kernel.run("%%parallel\nlarge").result == "[0-1] 0"
    end = time.monotonic() + 20
    while (left := stored_mb(kernel) - stored) > SLACK_MB and time.monotonic() < end:
        time.sleep(0.05)
    assert left < SLACK_MB, "what was sent before is given up"


def test_large_values_of_all_kinds(kernel: Kernel) -> None:
    kernel.run("numbers, text, raw = list(range(200_000)), 'x' * 1_000_000, b'y' * 1_000_000")
    assert kernel.run("%%parallel\nsum(numbers), len(text), len(raw), type(raw).__name__").result == (
        "[0-1] (19999900000, 1000000, 1000000, 'bytes')"
    )
    kernel.run(
        "fortran = np.asfortranarray(np.arange(90_000.0).reshape(300, 300))\nnested = {'a': fortran, 'b': [fortran]}"
    )
    assert (
        kernel.run("%%parallel\nnested['a'] is nested['b'][0], fortran.flags.f_contiguous, float(fortran[1, 0])").result
        == "[0-1] (True, True, 300.0)"
    )
    kernel.run("numbers = text = raw = fortran = nested = None")


def test_pushed_scattered_and_pulled_large_values(kernel: Kernel) -> None:
    kernel.run("wide = np.arange(400_000.0)\n%fiber push wide")
    assert kernel.run("%%parallel --no-push\nwide[0] = 1\nfloat(wide.sum())").result == "[0-1] 79999800001.0"
    kernel.run("del wide\n%fiber restart")
    assert kernel.run("%%parallel\nfloat(wide.sum())").result == "[0-1] 79999800000.0"
    kernel.run("parts = np.arange(400_000.0)\n%fiber scatter parts")
    assert kernel.run("%%parallel\nparts += 1\nlen(parts), float(parts[0])").result == (
        "[0] (200000, 1.0)\n[1] (200000, 200001.0)"
    )
    assert kernel.run("%fiber gather parts\nfloat(parts.sum())").result == "80000200000.0"


def test_an_array_that_may_be_missing(kernel: Kernel) -> None:
    """Sent only where the engine has none of its own: the name may have been assigned there before it was ever sent."""
    kernel.run("grid = np.zeros(200_000)")
    kernel.run("%%parallel\nif rank == 0: grid = np.ones(200_000)")
    assert kernel.run("%%parallel\nfloat(grid.sum())").result == "[0] 200000.0\n[1] 0.0"
    kernel.run("%fiber restart 0")
    assert kernel.run("%%parallel\nfloat(grid.sum())").result == "[0-1] 0.0"


PROCESSES = """import psutil, fibernb.client.current as c
def end(word):
    found = [p for p in psutil.process_iter(['name', 'cmdline']) if str(c.require().directory) in str(p.info)]
    ended = [p for p in found if p.info['name'] == word or word in (p.info['cmdline'] or [])]
    for process in ended: process.kill()
    psutil.wait_procs(ended, 20)
    return len(ended)"""


def test_large_names_outlive_hub_kernel_and_store(tmp_path: Path) -> None:
    with running_kernel(tmp_path, FIBERNB_PROGRESS="0", FIBERNB_LEASE_S="20") as kernel:
        follow(
            kernel,
            [
                f"%fiber scale 2\n{PROCESSES}\nimport numpy as np\nlarge = np.ones(100_000)",
                On("large[0] = 5\nfloat(large.sum())", "100004.0"),
                Here("end('hub')", "1"),
                "%fiber restart 0",
                On("float(large.sum())", ("100000.0", "100004.0")),
                "large[1] = 3",
                On("float(large.sum())", "100002.0"),
            ],
        )
        kernel.restart()
        follow(
            kernel,
            [
                "%load_ext fibernb\n%fiber attach\n%fiber restart 0",
                On("float(large.sum())", "100002.0"),
                f"{PROCESSES}\nimport numpy as np\nlarge = np.zeros(100_000)",
                On("large[0] += rank\nfloat(large.sum())", ("0.0", "1.0")),
                Here("end('fibernb-store')", "1"),
                "%fiber restart 0",
                On("float(large.sum())", ("0.0", "1.0")),
                "%fiber restart 1",
                On("float(large.sum())", "0.0"),
            ],
        )


# ---- modules --------------------------------------------------------------------------------------------


def test_local_modules_are_loaded_again(kernel: Kernel, tmp_path: Path) -> None:
    package = tmp_path / "edited_package"
    package.mkdir()
    (package / "__init__.py").write_text("from edited_package.inner import value\n")
    inner = package / "inner.py"
    inner.write_text("class Shape:\n    sides = 3\ndef value(): return 1\n")
    kernel.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    kernel.run(
        "%%parallel\nimport edited_package as ep\nfrom edited_package.inner import Shape, value\nshape = Shape()"
    )
    assert kernel.run("%%parallel\nep.value(), value(), shape.sides").result == "[0-1] (1, 1, 3)"
    inner.write_text("class Shape:\n    sides = 4\ndef value(): return 22\ndef added(): return 'added'\n")
    assert kernel.run("%%parallel\nep.inner.value(), value(), shape.sides, ep.inner.added()").result == (
        "[0-1] (22, 22, 4, 'added')"
    )
    inner.write_text("def value(: return 3")
    assert kernel.fail("%%parallel\nvalue()").error == "SyntaxError"
    inner.write_text("class Shape:\n    sides = 5\ndef value(): return 4444\n")
    assert kernel.run("%%parallel\nvalue()").result == "[0-1] 4444"


def test_installed_modules_are_not(kernel: Kernel, tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3" / "site-packages"
    site.mkdir(parents=True)
    module = site / "installed_module.py"
    module.write_text("def value(): return 'as it was'")
    kernel.run(f"import sys; sys.path.insert(0, {str(site)!r})")
    assert kernel.run("%%parallel\nimport installed_module\ninstalled_module.value()").result == "[0-1] 'as it was'"
    module.write_text("def value(): return 'edited in place'")
    assert kernel.run("%%parallel\ninstalled_module.value()").result == "[0-1] 'as it was'"
