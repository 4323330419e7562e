"""``get`` and ``wait``: from references to values."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from fibernb import serialize
from fibernb.client import options
from fibernb.client.refs import ObjectRef, error_of
from fibernb.errors import ConfigError, GetTimeout
from fibernb.model import Outcome, Result


def get(refs: ObjectRef | Sequence[ObjectRef], *, timeout: float | None = None) -> Any:
    """The value of a reference, or the list of values of several; waits for them.

    Parameters
    ----------
    timeout : seconds for all together; None waits for ever, 0 takes what is here.

    Raises the first exception in the order of ``refs``, `GetTimeout` when something was not ready in time.
    """
    _check_timeout(timeout)
    if isinstance(refs, ObjectRef):
        return refs.result(timeout)
    _check_refs("get", refs)
    deadline = None if timeout is None else time.monotonic() + timeout
    loads, ok = serialize.loads, Outcome.OK
    values = []
    for ref in refs:
        answer = ref.answer or _answer(ref, deadline, timeout)
        if answer.outcome is not ok:
            raise error_of(answer)
        values.append(loads(answer.value))
    return values


def wait(
    refs: Sequence[ObjectRef],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,  # noqa: ARG001  a name of Ray's
) -> tuple[list[ObjectRef], list[ObjectRef]]:
    """Wait until ``num_returns`` of the references are ready, or ``timeout`` seconds have passed.

    Gives at most ``num_returns`` that are ready, and the rest; both in the order of ``refs``. ``fetch_local`` is
    Ray's and changes nothing.
    """
    _check_timeout(timeout)
    if isinstance(refs, ObjectRef):
        raise TypeError("wait takes a list of references: wait([ref])")
    _check_refs("wait", refs)
    if len({ref.id for ref in refs}) != len(refs):
        raise ConfigError("wait takes each reference once, and this list holds some twice")
    options.whole("num_returns", num_returns, 1, max(1, len(refs)))
    if not refs:
        return [], []
    _wait_for(refs, num_returns, timeout)
    ready = [ref for ref in refs if ref.answer is not None][:num_returns]
    chosen = {ref.id for ref in ready}
    return ready, [ref for ref in refs if ref.id not in chosen]


def _wait_for(refs: Sequence[ObjectRef], count: int, timeout: float | None) -> None:
    unanswered = [ref for ref in refs if ref.answer is None]
    missing = count - (len(refs) - len(unanswered))
    if missing <= 0:
        return
    for ref in unanswered:
        ref.session.fetch(ref)

    def enough() -> bool:
        found = 0
        for ref in unanswered:
            if ref.answer is not None:
                found += 1
                if found >= missing:
                    return True
        return False

    unanswered[0].session.wait(enough, timeout)


def _answer(ref: ObjectRef, deadline: float | None, timeout: float | None) -> Result:
    ref.session.fetch(ref)
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    if not ref.session.wait(ref.done, left) or ref.answer is None:
        raise GetTimeout(f"{ref!r} was not ready within {timeout:g} s; its task goes on")
    return ref.answer


def _check_refs(name: str, refs: object) -> None:
    if not isinstance(refs, Sequence) or isinstance(refs, str | bytes):
        raise TypeError(f"{name} takes an ObjectRef or a list of them, not {type(refs).__name__}")
    for ref in refs:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"{name} takes ObjectRefs, and the list holds {type(ref).__name__}: {ref!r:.80}")


def _check_timeout(timeout: float | None) -> None:
    options.amount("timeout", timeout)
