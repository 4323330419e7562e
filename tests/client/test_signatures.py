from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fibernb.client.signatures import Signature, parameters_of


def _plain(a: int, b: int = 2) -> None: ...
def _star(a: int, *rest: int) -> None: ...
def _named(a: int, *, flag: bool) -> None: ...
def _open(a: int, *, flag: bool = False, **more: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (_plain, (1,), {}),
        (_plain, (1, 2), {}),
        (_plain, (), {"a": 1, "b": 2}),
        (_star, (1, 2, 3, 4), {}),
        (_named, (1,), {"flag": True}),
        (_open, (1,), {"other": 3}),
        (dict, (1, 2, 3), {"x": 1}),  # does not tell its parameters
    ],
)
def test_what_fits(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    Signature("work", parameters_of(function)).check(args, kwargs)


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "message"),
    [
        (_plain, (), {}, "missing a required argument: 'a'"),
        (_plain, (1, 2, 3), {}, "too many positional"),
        (_plain, (1,), {"c": 1}, "unexpected keyword argument 'c'"),
        (_plain, (1,), {"a": 1}, "multiple values for argument 'a'"),
        (_named, (1,), {}, "missing a required.*'flag'"),
        (_star, (), {}, "missing a required argument: 'a'"),
    ],
)
def test_what_does_not_fit(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=rf"^work: .*{message}"):
        Signature("work", parameters_of(function)).check(args, kwargs)


def test_methods_are_without_self() -> None:
    class Thing:
        def method(self, x: int) -> None: ...
        def loose(*args: int) -> None: ...

    Signature("m", parameters_of(Thing.method, skip_first=True)).check((1,), {})
    Signature("m", parameters_of(Thing.loose, skip_first=True)).check((1, 2), {})
