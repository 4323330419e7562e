"""Which names a body reads."""

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from fibernb.notebook.names import names_assigned, names_read, names_to_push


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = x + 1", {"x"}),
        ("x = 1", set()),
        ("x = 1\nx + 1", set()),
        ("x += 1", {"x"}),
        ("x = 1\nx += 1", set()),
        ("del x", {"x"}),
        ("x = 1\ndel x\nx", {"x"}),
        ("x.a = 1", {"x"}),
        ("x[i] = 1", {"x", "i"}),
        ("x: int = y", {"int", "y"}),
        ("x: int", {"int"}),
        ("x: int = 1\nx", {"int"}),
        ("for i in range(3): pass", {"range"}),
        ("if c:\n    x = 1\nx", {"c", "x"}),
        ("def f(a):\n    return a + b", {"b"}),
        ("def f():\n    global n\n    n += 1", {"n"}),
        ("def f():\n    n = 0\n    n += 1", set()),
        ("def f():\n    def g():\n        return deep\n    return g", {"deep"}),
        ("def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1", set()),
        ("lambda a: a * b", {"b"}),
        ("[x * k for x in xs]", {"k", "xs"}),
        ("class A(Base):\n    limit = limit\n    def m(self): return other", {"Base", "limit", "other"}),
        ("import numpy as np\nnp.zeros(n)", {"n"}),
        ("import os.path\nos", set()),
        ("from m import a as b\nb", set()),
        ("a, (b, *c) = t\na, b, c", {"t"}),
        ("f'{x:{width}}'", {"x", "width"}),
        ("with open(p) as f: f.read()", {"open", "p", "f"}),
        ("try:\n    x\nexcept E as e: e", {"x", "E", "e"}),
        ("(n := k) + n", {"k", "n"}),
        ("await g(x)", {"g", "x"}),
        ("async for a in agen(): print(a)", {"agen", "print", "a"}),
        ("async with lock as l: use(l)", {"lock", "use", "l"}),
        ("[a async for a in agen()]", {"agen"}),
        ("{a for a in xs} | {await f(b) for b in xs if b > low}", {"xs", "f", "low"}),
        ("{k: v + w for k, v in d.items() for w in [z for z in v]}", {"d"}),
        ("class C:\n    a = [b for b in xs]", {"xs"}),
        ("def f():\n    return [b for b in xs]", {"xs"}),
        ("async def f():\n    await g(x)\nawait f()", {"g", "x"}),
        ("def f():\n    return late\nlate = 1\nf()", {"late"}),
        ("match v:\n    case Point(x=0): pass\n    case k: print(k)", {"v", "Point", "print", "k"}),
        ("import os\nos.x += 1", set()),
        ("x = x + 1", {"x"}),
        ("(x, y), z = z, (x, y)", {"x", "y", "z"}),
        ("a[b].c += d", {"a", "b", "d"}),
        ("del a[b], c.d, e", {"a", "b", "c", "e"}),
        ("def f():\n    global z\n    del z\nf()", {"z"}),
        ("def f():\n    z = 1\n    del z\nf()", set()),
        ("try: f()\nexcept* E: g(x)", {"f", "E", "g", "x"}),
        ("@dec(arg)\nclass C(metaclass=M): pass", {"dec", "arg", "M"}),
        ("if c:\n    import numpy as np\nnp.zeros(1)", {"c", "np"}),
        ("def g():\n    x = 1\n    class C:\n        y = x\n        def h(self): return x, w", {"w"}),
        ("[(y := x) for x in xs]\ny", {"xs", "y"}),
        ("lambda *a, k=kk, **kw: (a, kw, z)", {"kk", "z"}),
        ("f(*a, **b), {**c}", {"f", "a", "b", "c"}),
        ("while (n := n - 1): pass", {"n"}),
        ("with a as b.c, d() as e[f]: pass", {"a", "b", "d", "e", "f"}),
    ],
)
def test_names_read(body: str, expected: set[str]) -> None:
    assert names_read(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%time f(x)", {"f", "x"}),
        ("%timeit -n 1 f(x)", {"f", "x"}),
        ("!echo $name {value + 1} rest", {"name", "value"}),
        ("out = !ls {folder}", {"folder"}),
        ("%%time\ntotal = sum(xs)", {"sum", "xs"}),
        ("%%bash\necho $greeting `date`", {"greeting"}),
        ("x?", {"x"}),
    ],
)
def test_ipython_syntax(body: str, expected: set[str]) -> None:
    transformed = TransformerManager().transform_cell(body)
    assert expected <= names_read(transformed) - {"get_ipython"}
    assert names_read(transformed) - {"get_ipython"} <= expected | {"n"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = y", {"x"}),
        ("if c:\n    x = 1\nelse:\n    import os.path as p", {"x", "p"}),
        ("def f():\n    a = 1\n    global g\n    g = 2", {"f", "g"}),
        ("class C:\n    a = 1", {"C"}),
        ("for i in xs: x += await f(i)", {"i", "x"}),
        ("x.a = x[0] = 1", set()),
        ("del x", {"x"}),
        ("[x for x in xs], {x for x in xs}, {x: y for x, y in xs}, [(z := x) for x in xs]", {"z"}),
    ],
)
def test_names_assigned(body: str, expected: set[str]) -> None:
    assert names_assigned(body) == expected


def test_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        names_read("for")


def test_names_to_push() -> None:
    namespace = {"x": 1, "rank": 2, "sum": max, "max": max, "__name__": "m", "In": [], "Out": {}, "unread": 0}
    hidden = {"In": namespace["In"], "Out": None}
    reads = frozenset(namespace) - {"unread"} | {"missing"}
    assert names_to_push(reads, namespace, hidden) == ["Out", "sum", "x"]
