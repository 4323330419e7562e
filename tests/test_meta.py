"""`fibernb.meta`: what it accepts, and what is read of it."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import pytest

import fibernb as fnb
from fibernb.errors import ConfigError
from fibernb.meta import needs_of


@fnb.meta(cpu=2, memory=100, gpu=0.5)
def heavy(factor: int = 1) -> int:
    return factor


def light() -> None: ...


@fnb.meta(cpu=1, gpu=1)
class Trainer:
    def run(self) -> None: ...

    @fnb.meta(cpu=4)
    def tune(self) -> None: ...

    def __call__(self) -> None: ...


@fnb.meta(cpu=8)
class LargeTrainer(Trainer): ...


def test_a_function_is_as_it_was() -> None:
    assert heavy(3) == 3
    assert heavy.__name__ == "heavy"


@pytest.mark.parametrize(
    ("target", "needs"),
    [
        (heavy, {"cpu": 2, "mem": 100, "gpu": 0.5}),
        (functools.partial(heavy, 2), {"cpu": 2, "mem": 100, "gpu": 0.5}),
        (light, {}),
        (len, {}),
        (Trainer, {"cpu": 1, "gpu": 1}),
        (Trainer(), {"cpu": 1, "gpu": 1}),
        (Trainer().tune, {"cpu": 4}),
        (Trainer().run, {}),
        (LargeTrainer, {"cpu": 8, "gpu": 1}),
        (None, {}),
    ],
)
def test_what_is_read(target: Any, needs: dict[str, float]) -> None:
    assert needs_of(target) == needs


def test_what_is_read_is_a_copy() -> None:
    needs_of(heavy)["cpu"] = 100
    assert needs_of(heavy)["cpu"] == 2


def test_two_of_them_add_up() -> None:
    @fnb.meta(cpu=1)
    @fnb.meta(cpu=9, gpu=2)
    def both() -> None: ...

    assert needs_of(both) == {"cpu": 1, "gpu": 2}


@pytest.mark.parametrize("value", [-1, "2", True, float("nan"), float("inf")])
def test_what_is_no_amount(value: Any) -> None:
    with pytest.raises(ConfigError, match="cpu cannot be"):
        fnb.meta(cpu=value)


def test_a_key_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match="disk"):
        fnb.meta(disk=1)  # type: ignore[call-arg]


def test_what_cannot_carry_it() -> None:
    with pytest.raises(TypeError, match="wrap it in a function"):
        fnb.meta(cpu=1)(len)


def test_the_name_stays_the_function() -> None:
    code = "import fibernb, fibernb.meta, fibernb.multiprocessing.needs; assert callable(fibernb.meta)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
