"""Items and values as bytes.

Every item and every value travels as a copy of its own, as if it travelled alone: what one call does to its argument,
or to a value that it gave before, no other call sees. Objects that nobody can change share one pickle.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from multiprocessing.pool import RemoteTraceback  # type: ignore[attr-defined]
from typing import Any, Final

from fibernb.engine.tracebacks import text_of
from fibernb.multiprocessing import reduction
from fibernb.multiprocessing.pooling.messages import Blobs, Form
from fibernb.serialize import dumps_error, loads_error

PROTOCOL: Final = 5
PICKLE: Final = pickle.PROTO[0]  # how every pickle begins

FIXED: Final = frozenset({type(None), bool, int, float, complex, str, bytes})


def is_fixed(value: Any) -> bool:
    """Whether nobody can change the value, and the plain pickle is certain to do."""
    kind = type(value)
    return kind in FIXED or (kind is tuple and FIXED.issuperset(map(type, value)))


def pack(objects: Sequence[Any]) -> Blobs:
    """Pickle items. Raises whatever the pickling of one of them raises."""
    if FIXED.issuperset(map(type, objects)) or all(map(is_fixed, objects)):
        return together(objects)
    dumps = reduction.dumps if len(objects) == 1 else reduction.Dumper().dumps
    return Blobs(form=Form.APART, data=[dumps(value) for value in objects])


def together(objects: Sequence[Any]) -> Blobs:
    """Pickle items of which `is_fixed` is true."""
    return Blobs(form=Form.TOGETHER, data=[pickle.dumps(list(objects), PROTOCOL)])


def unpack(blobs: Blobs) -> Iterable[Any]:
    """The objects; those that were pickled apart are loaded one by one."""
    if blobs.form is Form.TOGETHER:
        loaded: list[Any] = pickle.loads(blobs.data[0])
        return loaded
    return [pickle.loads(data) if data[0] == PICKLE else reduction.loads(data) for data in blobs.data]


def pack_error(error: BaseException, *, remote: bool = True) -> Blobs:
    """Pickle an exception, with the text of its traceback when it was raised by a user's call; never fails."""
    text = text_of(error) if remote else ""
    return Blobs(form=Form.ERROR, data=[dumps_error(error, text)])


def unpack_error(data: bytes) -> BaseException:
    """The exception; its cause is the traceback on the worker, of the class that the library uses for it."""
    error = loads_error(data)
    if error.__cause__ is not None:
        error.__cause__ = RemoteTraceback(f'\n"""\n{error.__cause__.text}"""')  # type: ignore[attr-defined]
    return error
