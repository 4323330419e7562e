from __future__ import annotations

from multiprocessing.pool import RemoteTraceback  # type: ignore[attr-defined]
from typing import Any

import pytest

from fibernb.multiprocessing.pooling.messages import Form
from fibernb.multiprocessing.pooling.packing import is_fixed, pack, pack_error, unpack, unpack_error


@pytest.mark.parametrize("value", [None, 1, 2.5, "text", b"bytes", True, (1, "a"), ()])
def test_what_nobody_can_change_travels_together(value: Any) -> None:
    assert is_fixed(value)
    blobs = pack([value] * 3)
    assert blobs.form is Form.TOGETHER
    assert list(unpack(blobs)) == [value] * 3


@pytest.mark.parametrize("value", [[1], {"a": 1}, ([1],), {1}, lambda: 1])
def test_anything_else_travels_as_copies_of_its_own(value: Any) -> None:
    assert not is_fixed(value)
    blobs = pack([value, value])
    assert blobs.form is Form.APART
    first, second = unpack(blobs)
    assert first is not second


def test_mixed_items_travel_apart() -> None:
    blobs = pack([1, [2], "three"])
    assert blobs.form is Form.APART
    assert list(unpack(blobs)) == [1, [2], "three"]


def test_sizes_are_told() -> None:
    assert pack([b"x" * 1000]).size_bytes > 1000


class _Refusing:
    def __reduce__(self) -> str:
        raise RuntimeError("cannot be pickled")


def test_errors_of_pickling_are_the_users() -> None:
    with pytest.raises(RuntimeError, match="cannot be pickled"):
        pack([1, _Refusing()])


def _error() -> ValueError:
    try:
        raise ValueError("bad", 7)
    except ValueError as error:
        return error


def test_exceptions_come_back_with_the_traceback_as_their_cause() -> None:
    error = unpack_error(pack_error(_error()).data[0])
    assert type(error) is ValueError
    assert error.args == ("bad", 7)
    assert type(error.__cause__) is RemoteTraceback
    assert 'raise ValueError("bad", 7)' in str(error.__cause__)


def test_exceptions_that_no_user_raised_have_no_cause() -> None:
    assert unpack_error(pack_error(_error(), remote=False).data[0]).__cause__ is None
