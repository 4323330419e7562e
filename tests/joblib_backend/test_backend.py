"""`fibernb.joblib` on a real cluster of two seats."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import fibernb as fnb
import fibernb.joblib
from fibernb.joblib import LARGE_BYTES, Backend, size_bytes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="fnb-") as directory:
        fibernb.joblib.register()
        fnb.init(workers=2, runtime_dir=directory, lease_s=5)
        with joblib.parallel_config(fibernb.joblib.NAME):
            yield
        fnb.shutdown()


def square(x: int) -> int:
    return x * x


def looked_at(array: Any, index: int) -> tuple[Any, bool, int]:
    return array[index], array.flags.writeable, os.getpid()


def nested(count: int) -> int:
    with joblib.parallel_config(fibernb.joblib.NAME):
        return sum(joblib.Parallel(n_jobs=2)(joblib.delayed(square)(x) for x in range(count)))


def failing(x: int, path: str) -> None:
    if x == 1:
        raise ValueError("one")
    time.sleep(60)
    Path(path).touch()


def told(path: str) -> None:
    Path(path, str(os.getpid())).touch()


def pid_and_told(path: str) -> bool:
    return Path(path, str(os.getpid())).exists()


def test_values_come_in_order() -> None:
    assert joblib.Parallel()(joblib.delayed(square)(x) for x in range(100)) == [x * x for x in range(100)]
    factor = 3
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(lambda x: x * factor)(x) for x in range(5)) == [0, 3, 6, 9, 12]


def test_n_jobs() -> None:
    backend = Backend()
    assert [backend.effective_n_jobs(n) for n in (None, -1, -2, -9, 1, 7)] == [2, 2, 1, 1, 1, 7]
    with pytest.raises(ValueError, match="n_jobs == 0"):
        backend.effective_n_jobs(0)


def test_a_large_array_is_put_once_and_shared() -> None:
    array = np.arange(100_000.0)
    values = joblib.Parallel(n_jobs=2)(joblib.delayed(looked_at)(array, index) for index in range(40))
    assert [value for value, _, _ in values] == list(range(40))
    assert {writeable for _, writeable, _ in values} == {False}
    assert os.getpid() not in {pid for _, _, pid in values}
    named = joblib.Parallel(n_jobs=2)(joblib.delayed(looked_at)(index=3, array=array) for _ in range(4))
    assert [value for value, _, _ in named] == [3.0] * 4


def test_sizes() -> None:
    import pandas
    import scipy.sparse

    assert size_bytes(np.zeros(1000)) == 8000
    assert size_bytes(scipy.sparse.eye(1000, format="csr")) == 8000
    assert size_bytes(pandas.DataFrame({"x": np.zeros(LARGE_BYTES)})) > LARGE_BYTES
    assert size_bytes([1, 2]) == size_bytes("text") == size_bytes(None) == 0


def test_parallel_within_parallel() -> None:
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(nested)(count) for count in (1, 2, 3, 4, 5)) == [0, 1, 5, 14, 30]


def test_an_error_comes_out_and_stops_the_rest(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(ValueError, match="one"):
        joblib.Parallel(n_jobs=2)(joblib.delayed(failing)(x, str(tmp_path / "slept")) for x in range(2))
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(square)(x) for x in range(3)) == [0, 1, 4]
    assert time.monotonic() - begun < 60, "the engine that slept was interrupted"
    assert not (tmp_path / "slept").exists()


def test_timeout_and_generators() -> None:
    with pytest.raises(multiprocessing.TimeoutError):
        joblib.Parallel(n_jobs=2, timeout=0.2)(joblib.delayed(time.sleep)(30) for _ in range(2))
    values = joblib.Parallel(n_jobs=2, return_as="generator")(joblib.delayed(square)(x) for x in range(5))
    assert list(values) == [0, 1, 4, 9, 16]


def test_initializer(tmp_path: Path) -> None:
    with joblib.parallel_config(fibernb.joblib.NAME, n_jobs=2, initializer=told, initargs=(str(tmp_path),)):
        assert all(joblib.Parallel()(joblib.delayed(pid_and_told)(str(tmp_path)) for _ in range(20)))


LEFT_OUT = {
    "test_nested_loop[loky-fibernb]": "loky's processes do not know our backend",
    "test_nested_loop[multiprocessing-fibernb]": "nor do those of joblib's pool",
    "test_dispatch_multiprocessing": "a manager of multiprocessing answers only to children of its own process",
    "test_initializer_context": "the same",
    "test_initializer_parallel": "the same",
    "test_nested_backend_context_manager": "it expects threads for a Parallel within a task; here that is the cluster",
    "test_nested_parallelism_limit": "the same",
    "test_parallel_with_interactively_defined_functions": "it runs a script that does not register our backend",
    "test_parallel_with_unpicklable_functions_in_args": "the same",
    "test_auto_memmap_on_arrays_from_generator": "it looks for numpy.memmap; our shared memory has no file",
    "test_memmapping_leaks": "the same",
}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_joblibs_own_tests(tmp_path: Path) -> None:
    """All tests of joblib's `test_parallel` that go through backends, with ours among these."""
    left_out = " or ".join(name.replace("[", " and ").rstrip("]") for name in LEFT_OUT)
    plugins = "-p tests.joblib_backend.plugin -p no:cacheprovider"
    command = f"-m pytest -q {plugins} --pyargs joblib.test.test_parallel -W ignore"
    done = subprocess.run(
        [sys.executable, *command.split(), "-k", f"fibernb and not ({left_out})", "--timeout", "60"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "FIBERNB_WORKERS": "2",
            "JOBLIB_TEMP_FOLDER": str(tmp_path),
            "FIBERNB_ENV_PASSTHROUGH": "JOBLIB_TEMP_FOLDER",
        },
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "failed" not in done.stdout.splitlines()[-1]
    assert int(done.stdout.splitlines()[-1].split(" passed")[0].split()[-1]) >= 90
