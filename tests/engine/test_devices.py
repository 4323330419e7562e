"""CUDA_VISIBLE_DEVICES around calls that were given gpus."""

from __future__ import annotations

import os

import pytest

from fibernb.engine.devices import VARIABLE, Devices


@pytest.mark.parametrize(
    ("before", "gpus", "during"), [(None, (1, 3), "1,3"), ("4,5,6", (0, 2), "4,6"), ("GPU-aa", (0, 1), "GPU-aa,1")]
)
def test_it_is_set_and_put_back(
    monkeypatch: pytest.MonkeyPatch, before: str | None, gpus: tuple[int, ...], during: str
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if before is not None:
        monkeypatch.setenv(VARIABLE, before)
    devices = Devices()
    devices.show(gpus)
    assert (devices.assigned, os.environ.get(VARIABLE)) == (gpus, during)
    devices.show(gpus[:1])
    assert os.environ.get(VARIABLE) == during.split(",", maxsplit=1)[0]
    devices.show(())
    assert os.environ.get(VARIABLE) == before
