from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import cloudpickle
import pytest

from fibernb import errors, exceptions, serialize
from fibernb.client import dressing, refs
from fibernb.model import Outcome, Result


@pytest.fixture(autouse=True)
def _undressed() -> Iterator[None]:
    refs.dress = None
    yield
    refs.dress = None


class Difficult(Exception):
    """Its constructor does not fit its arguments."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


class Closed(Exception):
    def __init_subclass__(cls) -> None:
        raise TypeError("no subclasses")


def raised(error: BaseException) -> BaseException:
    """The error as `get` raises it."""
    return refs.error_of(Result(1, serialize.dumps_error(error, "Traceback of the engine"), Outcome.ERROR))


def test_other_names_of_errors() -> None:
    assert exceptions.RayActorError is errors.ActorDied
    assert exceptions.GetTimeoutError is errors.GetTimeout
    assert issubclass(exceptions.OutOfMemoryError, exceptions.WorkerCrashedError)
    assert all(issubclass(getattr(exceptions, name), exceptions.RayError) for name in exceptions.__all__)
    with pytest.raises(AttributeError, match="RayNoError"):
        _ = exceptions.RayNoError


def test_exceptions_come_back_as_themselves_while_nobody_names_ray() -> None:
    assert type(raised(ValueError("x"))) is ValueError


def test_a_dressed_exit_keeps_its_code() -> None:
    assert exceptions.RayTaskError is dressing.TaskFailed
    error: Any = raised(SystemExit(3))
    assert isinstance(error, dressing.TaskFailed)
    assert isinstance(error, SystemExit)
    assert error.code == 3


def test_except_clauses_match_the_first_time() -> None:
    caught: BaseException | None = None
    try:
        raise raised(ValueError("x"))
    except exceptions.RayTaskError as error:
        caught = error
    kind: Any = type(caught)
    assert kind is ValueError


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("k"), FileNotFoundError(2, "gone", "a.txt"), Difficult(3, reason="odd")]
)
def test_exceptions_are_of_both_classes(error: Exception) -> None:
    task_error: Any = exceptions.RayTaskError
    dressed: Any = raised(error)
    assert issubclass(type(dressed), task_error)
    assert issubclass(type(dressed), type(error))
    assert str(dressed) == str(error)
    assert type(dressed).__name__ == type(error).__name__
    assert type(dressed.cause) is type(error)
    assert dressed.as_instanceof_cause() is dressed
    assert isinstance(dressed.__cause__, errors.RemoteTraceback)
    again = cloudpickle.loads(cloudpickle.dumps(dressed))
    assert type(again) is type(dressed)
    assert str(again.__cause__) == str(dressed.__cause__)


def test_attributes_stay() -> None:
    _ = exceptions.RayTaskError
    assert raised(Difficult(3, reason="odd")).code == 3  # type: ignore[attr-defined]
    assert raised(FileNotFoundError(2, "gone", "a.txt")).filename == "a.txt"  # type: ignore[attr-defined]


def test_what_cannot_be_of_both_is_the_cause() -> None:
    task_error: Any = exceptions.RayTaskError
    dressed: Any = raised(Closed("shut"))
    assert type(dressed) is task_error
    assert isinstance(dressed.cause, Closed)
    assert "shut" in str(dressed)


def test_errors_of_the_cluster_are_no_task_errors() -> None:
    task_error: Any = exceptions.RayTaskError
    for error in (errors.ActorDied("it was killed"), errors.TaskCancelled("x"), errors.WorkerDied(1, "n", -9)):
        assert type(raised(error)) is type(error)
        assert not isinstance(raised(error), task_error)


def test_naming_it_while_another_error_is_handled_gives_the_class() -> None:
    try:
        raise errors.ActorDied("x")
    except errors.FibernbError:
        assert exceptions.RayTaskError is dressing.TaskFailed


def test_a_script_may_import_all_names() -> None:
    code = "from fibernb.exceptions import *; print(RayTaskError.__name__, issubclass(RayTaskError, RayError))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "TaskFailed True\n"
