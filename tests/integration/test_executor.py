"""`fibernb.Executor` on real engines: initializers, and what happens to its calls when a script ends."""

from __future__ import annotations

import concurrent.futures

import pytest

import fibernb as fnb
from fibernb.client.cluster import Cluster
from tests.integration import preparing
from tests.integration.conftest import Place
from tests.integration.preparing import look, prepare


def test_an_initializer_runs_before_the_calls(cluster: Cluster) -> None:
    with fnb.Executor(initializer=prepare, initargs=(True,)) as pool:
        seen = list(pool.map(look, range(20)))
        assert pool.submit(look, 0).result(30)[0]
    assert {was for was, _ in seen} == {True}
    assert not preparing.prepared, "it ran on the engines only"


def test_an_initializer_that_fails_breaks_the_executor(cluster: Cluster) -> None:
    pool = fnb.Executor(2, None, prepare, (False,))
    future = pool.submit(look, 0)
    with pytest.raises(concurrent.futures.BrokenExecutor, match="ValueError: not prepared"):
        future.result(30)
    with pytest.raises(concurrent.futures.BrokenExecutor, match="takes no more calls"):
        pool.submit(look, 0)
    pool.shutdown()
    assert fnb.Executor().submit(abs, -1).result(30) == 1, "others go on"


def test_an_initializer_is_a_callable(cluster: Cluster) -> None:
    with pytest.raises(TypeError, match="callable"):
        fnb.Executor(initializer=1)  # type: ignore[arg-type]


def test_a_script_waits_for_its_calls_at_its_end(place: Place) -> None:
    code = """
        import pathlib, time
        import fibernb as fnb
        def late(path):
            time.sleep(0.5)
            pathlib.Path(path).touch()
        pool = fnb.Executor(2)
        pool.submit(late, "first")
        pool.submit(late, "second")
        pool.shutdown(wait=False)
    """
    done = place.run(code)
    assert done.returncode == 0, done.stderr
    assert (place.directory / "first").exists()
    assert (place.directory / "second").exists()


def test_nothing_can_be_submitted_after_the_end(place: Place) -> None:
    code = """
        import atexit
        @atexit.register
        def last():
            try:
                pool.submit(abs, 1)
            except RuntimeError as error:
                print(error)
        import fibernb as fnb
        pool = fnb.Executor(1)
        print(pool.submit(abs, -1).result())
    """
    assert place.run(code).stdout.split("\n")[:2] == ["1", "cannot schedule new futures after interpreter shutdown"]
