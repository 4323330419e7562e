"""What cannot be pickled is named by the path that leads to it."""

from __future__ import annotations

import functools
import threading
import types
from typing import Any

import pytest

from fibernb import serialize
from fibernb.errors import SerializationError

lock = threading.Lock()


class Holder:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        self.inner = inner


class Selective:
    """Has an attribute that it does not send."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept = {"deep": threading.Lock()}

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": self.kept}


class Refuses:
    def __reduce__(self) -> Any:
        raise RuntimeError("not me")


class Constructed:
    def __init__(self, part: Any) -> None:
        self.part = part

    def __reduce__(self) -> Any:
        return Constructed, (self.part,)


class Listed(list[Any]):
    pass


def failing_path(value: object) -> str:
    with pytest.raises(SerializationError) as caught:
        serialize.dumps(value, "v")
    return str(caught.value).partition(": ")[0]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (lock, "v"),
        ([1, (2, lock)], "v[1][1]"),
        ({"a": {3: lock}}, "v['a'][3]"),
        (Holder(model=Holder(inner={"lock": lock})), "v.model.inner['lock']"),
        (Slotted([lock]), "v.inner[0]"),
        (Selective(), "v.kept['deep']"),
        (Refuses(), "v"),
        (Constructed(lock), "v.__reduce__()[1][0]"),
        (Listed([lock]), "v[0]"),
        (functools.partial(print, lock), "v.args[0]"),
        (functools.partial(print, end=lock), "v.keywords['end']"),
        (ValueError("text", lock), "v.args[1]"),
        (types.SimpleNamespace(a=lock), "v.a"),
        ((x for x in "ab"), "v"),
    ],
)
def test_the_path_leads_to_the_culprit(value: object, path: str) -> None:
    assert failing_path(value) == path


def test_members_of_sets_are_named() -> None:
    assert failing_path({Refuses(), 1}).startswith("v{<")


def test_keys_are_named() -> None:
    assert failing_path({Refuses(): 1}).startswith("v{<")


def test_closures_globals_and_defaults_of_functions() -> None:
    held = threading.Lock()

    def closing() -> object:
        return held

    def defaulting(x: object = held, *, y: object = held) -> object:
        return x, y

    reading = types.FunctionType((lambda: used).__code__, {"used": [held]}, "reading")  # type: ignore[name-defined]  # noqa: F821
    assert failing_path(closing) == "v.closure['held']"
    assert failing_path(defaulting) == "v.defaults[0]"
    assert failing_path(reading) == "v.globals['used'][0]"
    assert failing_path(Constructed(held).__reduce__) == "v.__self__.__reduce__()[1][0]"


def test_the_error_says_what_is_wrong_and_keeps_the_cause() -> None:
    with pytest.raises(SerializationError, match=r"v\[0\]: cannot pickle '_thread.lock' object: make it") as caught:
        serialize.dumps([lock], "v")
    assert isinstance(caught.value.__cause__, TypeError)


def test_cycles_end() -> None:
    cycle: dict[str, Any] = {"lock": lock}
    cycle["self"] = [cycle]
    assert failing_path(cycle) in ("v['lock']", "v['self'][0]['lock']")


def test_nesting_that_is_too_deep_says_so() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(SerializationError, match="nested too deeply"):
        serialize.dumps(value, "v")
    while value:
        value = value.pop()


def test_a_long_list_is_searched_to_its_end() -> None:
    assert failing_path([*range(5000), lock]) == "v[5000]"


def test_only_one_of_equal_failures_inside_a_path_is_named() -> None:
    shared = Holder(lock=lock)
    assert failing_path([shared, shared]) == "v[0].lock"
