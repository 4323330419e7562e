"""References that the test answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from fibernb import serialize
from fibernb.client.refs import ObjectRef
from fibernb.model import Outcome, Result
from tests.notebook.fake_cluster import FakeSession


class FakeRef:
    def __init__(self, id_: int) -> None:
        self.id = id_
        self.answer: Result | None = None
        self._callbacks: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        return self.answer is not None

    def result(self) -> Any:
        assert self.answer is not None
        return serialize.loads(self.answer.value)

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        self._callbacks.append(callback)

    def finish(self, value: object) -> None:
        if isinstance(value, BaseException):
            self.answer = Result(self.id, serialize.dumps_error(value), Outcome.ERROR)
        else:
            self.answer = Result(self.id, serialize.dumps(value))
        for callback in self._callbacks:
            callback(self)


class CancellingSession(FakeSession):
    """Remembers what was cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled: list[tuple[list[int], bool]] = []

    def cancel(self, refs: Iterable[ObjectRef], force: bool = False, recursive: bool = True) -> None:
        self.cancelled.append(([ref.id for ref in refs], force))


def as_refs(refs: Iterable[FakeRef]) -> list[ObjectRef]:
    return cast(list[ObjectRef], list(refs))
