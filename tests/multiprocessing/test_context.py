"""The names of the module, and contexts by the library's start methods."""

from __future__ import annotations

import multiprocessing
import multiprocessing.dummy
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import fibernb as fnb
import fibernb.multiprocessing as mp
from fibernb.client.cluster import Cluster
from tests.multiprocessing.conftest import wait_until

METHODS = ("spawn", "fork", "forkserver")


@pytest.fixture(autouse=True)
def _default_method() -> Iterator[None]:
    yield
    mp.set_start_method(None, force=True)


def test_every_name_of_the_library_is_there() -> None:
    assert set(mp.__all__) == set(multiprocessing.__all__)
    assert not [name for name in mp.__all__ if not hasattr(mp, name)]
    assert mp.reducer is mp.reduction
    assert (mp.SUBDEBUG, mp.SUBWARNING) == (multiprocessing.SUBDEBUG, multiprocessing.SUBWARNING)  # type: ignore[attr-defined]
    assert mp.pool.TimeoutError is multiprocessing.TimeoutError


def test_exceptions_are_those_of_the_library() -> None:
    for name in ("ProcessError", "BufferTooShort", "TimeoutError", "AuthenticationError"):
        assert getattr(mp, name) is getattr(multiprocessing, name)


def test_submodules_load_when_they_are_named() -> None:
    assert mp.queues.__name__ == "fibernb.multiprocessing.queues"
    assert mp.util.Finalize is multiprocessing.util.Finalize
    assert mp.dummy.Process is multiprocessing.dummy.Process
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mp.nothing


def test_importing_the_package_does_not_load_it() -> None:
    code = "import sys, fibernb; sys.exit('fibernb.multiprocessing' in sys.modules or 'multiprocessing' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("method", METHODS)
def test_contexts(method: str) -> None:
    context = mp.get_context(method)
    assert context.get_start_method() == method
    assert context.get_context() is context
    assert context.Process().__class__.__name__.lower().startswith(method)
    with pytest.raises(ValueError, match="cannot set start method"):
        context.set_start_method("spawn")


def test_a_context_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="cannot find context for 'none'"):
        mp.get_context("none")


def test_the_start_method_is_set_once_unless_it_is_forced() -> None:
    assert mp.get_start_method(allow_none=True) is None
    mp.set_start_method("fork")
    assert mp.get_start_method() == "fork"
    assert isinstance(mp.get_context().Process(), mp.get_context("fork").Process)
    with pytest.raises(RuntimeError, match="already been set"):
        mp.set_start_method("spawn")
    mp.set_start_method("spawn", force=True)
    assert mp.get_all_start_methods() == list(METHODS)


def test_what_has_no_effect() -> None:
    mp.freeze_support()
    mp.set_executable(sys.executable)
    mp.set_forkserver_preload(["json"])
    mp.allow_connection_pickling()


def test_the_number_of_cpus_is_that_of_seats(cluster: Cluster) -> None:
    wait_until(lambda: mp.cpu_count() == 2)
    cluster.scale(3, wait=False)
    wait_until(lambda: mp.cpu_count() == 3)


def test_the_number_of_cpus_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    fnb.shutdown()
    assert mp.cpu_count() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("FIBERNB_WORKERS", "5")
    assert mp.cpu_count() == 5
    assert not fnb.is_initialized()
