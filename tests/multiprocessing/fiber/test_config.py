"""Fiber's configuration: where it comes from, what is refused, what it does."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from multiprocessing import ProcessError, util
from pathlib import Path
from typing import Any

import pytest

import fibernb as fnb
import fibernb.multiprocessing.fiber as fiber
from fibernb.errors import ConfigError
from fibernb.multiprocessing import needs
from fibernb.multiprocessing.fiber.config import FILE_NAME, FiberConfig
from tests.integration.conftest import Place


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty working directory, and afterwards no configuration and no handlers of loggers."""
    monkeypatch.chdir(tmp_path)
    handlers = list(util.get_logger().handlers)
    yield
    needs.configure({})
    for handler in set(util.get_logger().handlers) - set(handlers):
        util.get_logger().removeHandler(handler)
        handler.close()


def write_file(text: str) -> None:
    Path(FILE_NAME).write_text(f"[default]\n{text}\n")


def test_the_defaults() -> None:
    assert fiber.config.default_backend == "local"
    assert fiber.config.backend is None
    assert fiber.config.get_object().ipc_active is True


def test_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write_file("log_level = warning\nimage=demo-image:latest\nipc_active=False\nmem_per_job=12345")
    fiber.init()
    found = fiber.config.get_object()
    assert (found.log_level, found.image, found.ipc_active, found.mem_per_job) == (
        logging.WARNING,
        "demo-image:latest",
        False,
        12345,
    )


def test_variables_go_before_the_file_and_arguments_before_both(monkeypatch: pytest.MonkeyPatch) -> None:
    write_file("cpu_per_job=1\nmem_per_job=1\nimage=one")
    monkeypatch.setenv("FIBER_MEM_PER_JOB", "2")
    monkeypatch.setenv("FIBER_IMAGE", "two")
    fiber.init(image="three")
    found = fiber.config.get_dict()
    assert (found["cpu_per_job"], found["mem_per_job"], found["image"]) == (1, 2, "three")


def test_init_tells_what_has_changed() -> None:
    assert fiber.config.init(cpu_per_job=3) == ["cpu_per_job"]
    assert fiber.config.init(cpu_per_job=3) == []
    fiber.reset()
    assert fiber.config.cpu_per_job is None


def test_it_can_be_assigned() -> None:
    import fibernb.multiprocessing.fiber.config as fiber_config

    fiber_config.cpu_per_job = 2  # type: ignore[attr-defined]  # mypy takes it for the module of that name
    assert fiber.config.cpu_per_job == 2
    assert needs.resources_of(len).milli_cpus == 2000


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"log_levl": 1}, "log_level"),
        ({"cpu_per_job": "many"}, "cpu_per_job cannot be 'many'"),
        ({"log_level": "loud"}, "log_level cannot be 'loud'"),
        ({"ipc_active": 3.5}, "ipc_active cannot be"),
    ],
)
def test_what_cannot_be(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        fiber.init(**given)
    assert fiber.config.get_object() == FiberConfig()


def test_a_key_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="no key 'colour'"):
        fiber.config.colour  # noqa: B018
    with pytest.raises(ConfigError, match="no key 'colour'"):
        fiber.config.colour = "red"


def test_a_file_that_cannot_be_read() -> None:
    Path(FILE_NAME).write_text("no section")
    with pytest.raises(ConfigError, match="Mend or remove it"):
        fiber.init()


def test_the_logger_writes_to_a_file(tmp_path: Path) -> None:
    fiber.init(log_level="debug", log_file=str(tmp_path / "logs" / "fiber.log"))
    fiber.init(log_level="info", log_file=str(tmp_path / "logs" / "fiber.log"))
    util.get_logger().info("a line")
    util.get_logger().debug("not this one")
    text = (tmp_path / "logs" / "fiber.log.MainProcess").read_text()
    assert "a line" in text
    assert "not this one" not in text


def test_debug_logs_everything() -> None:
    fiber.init(debug=True, log_file="stdout")
    assert util.get_logger().level == logging.DEBUG


def test_a_backend_that_does_not_exist() -> None:
    with pytest.raises(ProcessError, match="no backend 'mainframe'"):
        fiber.init(backend="mainframe")
    assert fiber.config.backend is None


def tell_config(writing: Any) -> None:
    writing.send(fiber.config.get_dict())


def test_a_backend_and_what_processes_inherit(place: Place) -> None:
    fiber.init(backend="local", mem_per_job=1, image="demo")
    try:
        assert fnb.is_initialized()
        reading, writing = fiber.Pipe()
        process = fiber.Process(target=tell_config, args=(writing,))
        process.start()
        assert reading.recv() == fiber.config.get_dict()
        process.join()
    finally:
        fnb.shutdown()
