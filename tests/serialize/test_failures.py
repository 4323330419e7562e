"""Exceptions that travel."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fibernb import serialize
from fibernb.errors import RemoteTraceback, WorkerDied


def returned(error: BaseException, text: str = "") -> BaseException:
    return serialize.loads_error(serialize.dumps_error(error, text))


class CustomInit(ValueError):
    """Its arguments are not those of its constructor."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(f"code {code}")
        self.code = code
        self.detail = detail


class CustomText(KeyError):
    def __init__(self, what: str, where: str) -> None:
        super().__init__(what)
        self.where = where

    def __str__(self) -> str:
        return f"{self.args[0]} at {self.where}"


class HoldsLock(RuntimeError):
    def __init__(self) -> None:
        super().__init__("held", threading.Lock())
        self.lock = threading.Lock()
        self.number = 3


class BadText(Exception):
    def __str__(self) -> str:
        raise TypeError("no text")


class OwnGroup(ExceptionGroup[Exception]):
    def derive(self, excs: Any) -> Any:
        return OwnGroup(self.message, excs)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x", 3),
        KeyError("k"),
        KeyboardInterrupt(),
        SystemExit(3),
        StopIteration(5),
        FileNotFoundError(2, "gone", "name"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        SyntaxError("bad", ("<cell>", 3, 2, "a b\n")),
        CustomInit(3, detail="d"),
        CustomText("a", "b"),
        WorkerDied(3, "host", -9, "last", "memory"),
        AssertionError(),
        ImportError("no", name="n", path="p"),
    ],
)
def test_own_type_text_and_attributes(error: BaseException) -> None:
    back = returned(error)
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.args == error.args
    assert back.__dict__ == error.__dict__


def test_the_traceback_is_the_cause() -> None:
    back = returned(ValueError("x"), "Traceback: there")
    assert isinstance(back.__cause__, RemoteTraceback)
    assert "there" in str(back.__cause__)
    assert returned(ValueError("x")).__cause__ is None


def test_notes_come_along() -> None:
    error = CustomInit(1, detail="d")
    error.add_note("look there")
    assert returned(error).__notes__ == ["look there"]


def test_attributes_that_cannot_be_pickled_are_replaced() -> None:
    back: Any = returned(HoldsLock())
    assert type(back) is HoldsLock
    assert back.number == 3
    assert "lock" in repr(back.lock)
    assert back.args[0] == "held"


def test_a_text_that_raises_is_no_obstacle() -> None:
    assert isinstance(returned(BadText(1)), BadText)


def test_groups_keep_type_and_members() -> None:
    group = OwnGroup("several", [ValueError(1), CustomInit(2, detail="d"), ExceptionGroup("inner", [HoldsLock()])])
    group.add_note("noted")
    back: Any = returned(group)
    members: Any = back.exceptions
    assert type(back) is OwnGroup
    assert [type(member) for member in members] == [ValueError, CustomInit, ExceptionGroup]
    assert [type(member) for member in members[2].exceptions] == [HoldsLock]
    assert back.__notes__ == ["noted"]
    assert str(back) == str(group)


def test_a_group_of_a_class_that_cannot_be_pickled() -> None:
    group = unpicklable_class(ExceptionGroup)("g", [ValueError(1), HoldsLock()])
    back: Any = returned(group)
    assert isinstance(back, ExceptionGroup)
    assert [type(member) for member in back.exceptions] == [ValueError, HoldsLock]
    base = BaseExceptionGroup("b", [KeyboardInterrupt(), HoldsLock()])
    assert isinstance(returned(base), BaseExceptionGroup)


def unpicklable_class(base: Any) -> Any:
    return type("Local", (base,), {"lock": threading.Lock(), "__module__": "__main__"})


def test_a_class_that_cannot_be_pickled_has_a_stand_in() -> None:
    error = unpicklable_class(CustomInit)(3, detail="d")
    error.add_note("noted")
    back = returned(error, "text")
    assert isinstance(back, CustomInit)
    assert type(back).__name__ == "Local"
    assert str(back) == "code 3"
    assert back.__notes__ == ["noted"]
    assert isinstance(back.__cause__, RemoteTraceback)
    assert type(returned(error)) is type(back)


def test_a_stand_in_can_travel_on() -> None:
    back = returned(returned(unpicklable_class(KeyError)("k")))
    assert isinstance(back, KeyError)
    assert str(back) == "'k'"


def test_a_module_that_the_receiver_lacks(tmp_path: Path) -> None:
    path = tmp_path / "only_on_engine.py"
    path.write_text("class Base(LookupError): pass\nclass Special(Base): pass\n")
    spec = importlib.util.spec_from_file_location("only_on_engine", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["only_on_engine"] = module
    spec.loader.exec_module(module)
    data = serialize.dumps_error(module.Special("missing"), "text")
    del sys.modules["only_on_engine"]
    back = serialize.loads_error(data)
    assert isinstance(back, LookupError)
    assert (type(back).__name__, type(back).__module__) == ("Special", "only_on_engine")
    assert str(back) == "missing"


def with_a_name() -> AttributeError:
    return AttributeError("no such attribute", name="colour", obj=object())


@pytest.mark.parametrize(
    ("error", "field", "value"),
    [
        (SystemExit(3), "code", 3),
        (StopIteration([1, 2]), "value", [1, 2]),
        (ImportError("cannot import", name="module", path="place"), "path", "place"),
        (with_a_name(), "name", "colour"),
        (OSError(2, "not there", "file"), "filename", "file"),
        (UnicodeDecodeError("ascii", b"\xff", 0, 1, "not ascii"), "object", b"\xff"),
    ],
    ids=lambda case: type(case).__name__,
)
def test_what_built_in_classes_keep_comes_back_whatever_the_exception_carries(
    error: BaseException, field: str, value: object
) -> None:
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    back = returned(error)
    assert type(back) is type(error)
    assert getattr(back, field) == value
    assert str(back) == str(error)


def test_fields_that_were_never_set_are_left_out() -> None:
    assert "object" not in serialize.fields_of(UnicodeDecodeError.__new__(UnicodeDecodeError))


# ---- what is told in short -------------------------------------------------------------------------------


class Silent(Exception):
    pass


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("bad 7"), "ValueError: bad 7"),
        (ValueError("\n  first \nsecond"), "ValueError: first"),
        (Silent(), "Silent"),
        (Broken(), "Broken: <Broken whose text raised an error>"),
        (OSError(2, "No such file", "x.txt"), "FileNotFoundError: [Errno 2] No such file: 'x.txt'"),
        (ExceptionGroup("two", [ValueError(1), KeyError(2)]), "ExceptionGroup: two (2 sub-exceptions)"),
        (ValueError("\ud800 lone"), "ValueError: \\ud800 lone"),
    ],
)
def test_kind_and_first_line_are_told_without_unpickling(error: BaseException, told: str) -> None:
    data = serialize.dumps_error(error, "Traceback")
    assert serialize.told_error(data) == told
    assert serialize.told_error(bytes(memoryview(data)[: 3 + len(told.encode())])) == told


def test_what_is_told_is_bounded() -> None:
    told = serialize.told_error(serialize.dumps_error(ValueError("ü" * 10**6)))
    assert len(told) == 200
    assert told.endswith("ü…")


@pytest.mark.parametrize("data", [b"", b"\x03", b"\x80\x05N.", serialize.dumps(1)])
def test_of_what_is_no_exception_nothing_is_told(data: bytes) -> None:
    assert serialize.told_error(data) == ""
