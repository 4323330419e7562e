"""``get`` and ``wait``: from references to values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, TypeVar

from fibernb import serialize
from fibernb.client import options
from fibernb.client.refs import ObjectRef, error_of, wait_for_value
from fibernb.client.streams import ObjectRefGenerator
from fibernb.errors import ConfigError
from fibernb.model import Outcome

R = TypeVar("R", bound=ObjectRef | ObjectRefGenerator)

_ONLY_REFS: Final = frozenset({ObjectRef})
_CHOICES: Final = frozenset({ObjectRef, ObjectRefGenerator})
_id_of: Final = attrgetter("id")

FEW: Final = 32


def get(refs: ObjectRef | Sequence[Any], *, timeout: float | None = None) -> Any:
    """The value of a reference, or the list of values of several; waits for them.

    Parameters
    ----------
    refs : a reference, or a list of them; lists within the list become lists of values.
    timeout : seconds for all together; None waits for ever, 0 takes what is here.

    Raises the first exception in the order of ``refs``, `GetTimeout` when something was not ready in time.
    """
    if timeout is not None:
        _check_timeout(timeout)
    if type(refs) is ObjectRef:
        return refs.result(timeout)
    if not isinstance(refs, Sequence) or isinstance(refs, str | bytes):
        raise TypeError(f"get takes an ObjectRef or a list of them, not {_no_reference(refs)}")
    deadline = None if timeout is None else time.monotonic() + timeout
    if _ONLY_REFS.issuperset(map(type, refs)):
        return _values(refs, deadline, timeout)
    _fetch(list(_flat(refs)))
    return _nested_values(refs, deadline, timeout)


def _values(refs: Sequence[ObjectRef], deadline: float | None, timeout: float | None) -> list[Any]:
    loads, ok = serialize.loads, Outcome.OK
    values = []
    fetched = False
    for ref in refs:
        answer = ref.answer
        if answer is None and not fetched:
            _fetch(refs)
            fetched = True
        if answer is None or answer.blocks:
            values.append(wait_for_value(ref, deadline, timeout))
        elif answer.outcome is ok:
            values.append(loads(answer.value))
        else:
            raise error_of(answer)
    return values


def _nested_values(refs: Sequence[Any], deadline: float | None, timeout: float | None) -> list[Any]:
    return [
        wait_for_value(ref, deadline, timeout) if isinstance(ref, ObjectRef) else _nested_values(ref, deadline, timeout)
        for ref in refs
    ]


def _fetch(refs: Iterable[ObjectRef]) -> None:
    """See to it that the answers of all come, in one request."""
    missing = [ref for ref in refs if ref.answer is None and ref.call is None]
    for session in {ref.session for ref in missing}:
        session.fetch(*(ref for ref in missing if ref.session is session))


def _flat(refs: Sequence[Any]) -> Iterable[ObjectRef]:
    for ref in refs:
        if isinstance(ref, ObjectRef):
            yield ref
        elif isinstance(ref, list | tuple):
            yield from _flat(ref)
        else:
            raise TypeError(f"get takes ObjectRefs, and the list holds {_no_reference(ref)}")


def _no_reference(given: object) -> str:
    """What was given in the place of a reference, and what to do about it."""
    if isinstance(given, ObjectRefGenerator):
        return f"a generator of references, {given!r:.80}: iterate over it, and get what comes out"
    found = f"{type(given).__name__}: {given!r:.80}"
    if hasattr(given, "remote") or getattr(given, "__name__", "") == "remote":
        return f"{found}. Its call is missing: .remote(...) gives a reference"
    return f"{found}. Only what remote() and put() give can be waited for"


def wait(
    refs: Sequence[R],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,  # noqa: ARG001  a name of Ray's
) -> tuple[list[R], list[R]]:
    """Wait until ``num_returns`` of the references are ready, or ``timeout`` seconds have passed.

    Gives at most ``num_returns`` that are ready, and the rest; both in the order of ``refs``. A generator of references
    is ready when its next one is. ``fetch_local`` is Ray's and changes nothing.
    """
    _check_timeout(timeout)
    _check_choice(refs)
    options.whole("num_returns", num_returns, 1)
    if not refs:
        return [], []
    if num_returns > len(refs):
        raise ConfigError(f"num_returns cannot be {num_returns}: the list holds {len(refs)} to wait for")
    ready = _ready(refs, num_returns)
    if len(ready) < num_returns:
        _fetch(ref for ref in refs if isinstance(ref, ObjectRef))
        refs[0].session.wait(_Enough(refs, num_returns, refs[0].session.arrivals), timeout)
        ready = _ready(refs, num_returns)
    return [refs[index] for index in ready], _others(refs, ready)


class _Enough:
    """Whether as many references are ready as are waited for.

    It is asked at every arrival, so it looks at the references only when enough has arrived since the last look.
    """

    def __init__(self, refs: Sequence[ObjectRef | ObjectRefGenerator], count: int, arrivals: Callable[[], int]) -> None:
        self._unready = refs
        self._may_miss = len(refs) - count
        self._arrivals = arrivals
        self._look_at = 0

    def __call__(self) -> bool:
        arrived = self._arrivals()
        if arrived < self._look_at:
            return False
        self._unready = [ref for ref in self._unready if not ref.done()]
        missing = len(self._unready) - self._may_miss
        self._look_at = arrived + missing
        return missing <= 0


def _ready(refs: Sequence[ObjectRef | ObjectRefGenerator], count: int) -> list[int]:
    """Where the first ``count`` stand that are ready."""
    found = []
    for index, ref in enumerate(refs):
        if ref.done():
            found.append(index)
            if len(found) == count:
                break
    return found


def _others(refs: Sequence[R], chosen: list[int]) -> list[R]:
    """All but those that stand at the chosen places, which are in order."""
    if len(chosen) > FEW:
        left = set(range(len(refs))).difference(chosen)
        return [refs[index] for index in sorted(left)]
    others = list(refs)
    for index in reversed(chosen):
        del others[index]
    return others


def _check_choice(refs: object) -> None:
    if isinstance(refs, ObjectRef | ObjectRefGenerator):
        raise TypeError("wait takes a list of references: wait([ref])")
    if not isinstance(refs, Sequence) or isinstance(refs, str | bytes):
        raise TypeError(f"wait takes a list of ObjectRefs, not {type(refs).__name__}")
    for kind in set(map(type, refs)).difference(_CHOICES):
        wrong = next(ref for ref in refs if type(ref) is kind)
        raise TypeError(f"wait takes ObjectRefs, and the list holds {_no_reference(wrong)}")
    keys = set(map(_id_of, refs))
    if len(keys) != len(refs):
        twice = next(ref for index, ref in enumerate(refs) if ref in refs[:index])
        raise ConfigError(
            f"wait takes each reference once, and this list holds {twice!r} twice: pass list(dict.fromkeys(refs))"
        )


def _check_timeout(timeout: float | None) -> None:
    options.amount("timeout", timeout)
