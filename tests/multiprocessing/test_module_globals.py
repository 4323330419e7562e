"""Globals of a script, as the functions of it see them that processes get one by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
    import {module} as multiprocessing

    state, shared, count = None, {{}}, 0

    def prepare(value):
        global state, late, count
        state = late = value
        shared["x"] = value
        count = 10

    def look(_):
        return state, shared.get("x"), late

    def add(_):
        global count
        count += 1
        return count

    def nested(queue):
        prepare(5)
        with multiprocessing.Pool(1, prepare, (state + 1,)) as pool:
            queue.put(pool.map(look, [0]) + pool.map(add, [0]) + [count])

    class Counter:
        def get(self):
            return count

    def children(queue):
        prepare(7)
        queue.put((look(0), add(0), Counter().get()))

    if __name__ == "__main__":
        with multiprocessing.Pool(1, prepare, (5,)) as pool:
            print(pool.map(look, [0]), pool.map(add, [0, 0]), pool.map(add, [0, 0]))
            print(pool.apply(Counter().get), list(pool.imap(add, [0])))
        queue = multiprocessing.Queue()
        for target in (children, nested):
            child = multiprocessing.Process(target=target, args=(queue,))
            child.start()
            print(queue.get(), state, shared, count)
            child.join()
"""


def said(tmp_path: Path, module: str) -> str:
    script = tmp_path / "script.py"
    script.write_text("\n".join(line[4:] for line in PROGRAM.format(module=module).splitlines()))
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True).stdout


def test_functions_share_globals_as_with_the_library(tmp_path: Path) -> None:
    ours = said(tmp_path, "fibernb.multiprocessing")
    assert ours == said(tmp_path, "multiprocessing")
    assert ours.startswith("[(5, 5, 5)] [11, 12] [13, 14]\n")


NOTEBOOK = """
    import __main__
    import fibernb.multiprocessing as multiprocessing
    from fibernb.client import code

    def cell(source):
        code.epoch += 1
        exec(source, vars(__main__))

    cell("scale = 3; seen = []")
    cell("def helper(x): return x * scale")
    cell("def run(x): seen.append(x); return helper(x), len(seen)")
    with multiprocessing.Pool(1) as pool:
        print(pool.map(run, [1]), pool.map(run, [1]))
        cell("scale = 10")
        print(pool.map(run, [1]))
        cell("def helper(x): return -x")
        print(pool.map(run, [1]))
        cell("seen = []")
        print(pool.map(run, [1]))
        cell("def run(x): return x, scale, len(seen)")
        print(pool.map(run, [1]))
"""


def test_what_a_notebook_binds_anew_reaches_a_pool_that_runs(tmp_path: Path) -> None:
    script = tmp_path / "cells.py"
    script.write_text("\n".join(line[4:] for line in NOTEBOOK.splitlines()))
    found = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    assert found.splitlines() == [
        "[(3, 1)] [(3, 2)]",
        "[(10, 3)]",
        "[(-1, 4)]",
        "[(-1, 1)]",
        "[(1, 10, 1)]",
    ]
