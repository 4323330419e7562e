"""What an engine holds in the place of a notebook value that cannot be pickled: an error for whoever uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from fibernb.errors import SerializationError


class Pushed:
    """Pickles as a stand-in, in the notebook."""

    def __init__(self, name: str, reason: str) -> None:
        self._name = name
        self._reason = reason

    def __reduce__(self) -> tuple[Callable[[str, str], StandIn], tuple[str, str]]:
        return make_stand_in, (self._name, self._reason)


class StandIn:
    """Raises SerializationError, naming the variable and the path to the culprit, whatever is done with it."""

    __slots__ = ("_message",)

    def __init__(self, message: str) -> None:
        object.__setattr__(self, "_message", message)

    def __getattribute__(self, attribute: str) -> NoReturn:
        raise SerializationError(object.__getattribute__(self, "_message"))


def make_stand_in(name: str, reason: str) -> StandIn:
    """The stand-in for a variable; ``reason`` says what in it cannot be pickled."""
    return StandIn(f"{name!r} could not be sent from the notebook: {reason}")


def _refuse(stand_in: StandIn, *_: Any) -> NoReturn:
    raise SerializationError(object.__getattribute__(stand_in, "_message"))


_OPERATIONS: Final = """
    setattr delattr call repr str bytes format bool len length_hint hash iter next reversed contains getitem
    setitem delitem enter exit aenter aexit await aiter anext lt le eq ne gt ge neg pos abs invert int float
    complex index round trunc floor ceil add sub mul matmul truediv floordiv mod divmod pow lshift rshift and
    or xor radd rsub rmul rmatmul rtruediv rfloordiv rmod rdivmod rpow rlshift rrshift rand ror rxor iadd isub
    imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ior ixor reduce reduce_ex copy deepcopy dir
"""

for _operation in _OPERATIONS.split():  # Python looks operators up on the type, past __getattribute__
    setattr(StandIn, f"__{_operation}__", _refuse)
