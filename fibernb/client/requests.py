"""Questions to the hub and their answers, over breaks of the link."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from fibernb.core.messages import ActorFound, Message, State, Status, Synced
from fibernb.errors import ClusterError

ANSWER_TIMEOUT_S: Final = 30.0

Reply: TypeAlias = Status | ActorFound | State | Synced


class Requests:
    """What was asked and is not answered.

    Parameters
    ----------
    cluster : its name, for errors.
    tell : sends a message.
    wait : takes in what arrives until a condition holds; False after a time in seconds.
    """

    def __init__(
        self,
        cluster: str,
        tell: Callable[[Message], object],
        wait: Callable[[Callable[[], bool], float | None], bool],
    ) -> None:
        self._cluster = cluster
        self._tell = tell
        self._wait = wait
        self._numbers = itertools.count(1)
        self._open: dict[int, Message | None] = {}
        self._unawaited: set[int] = set()
        self._replies: dict[int, Reply] = {}  # that their askers have not taken yet

    def __bool__(self) -> bool:
        return bool(self._open or self._replies)

    def number(self) -> int:
        """The number of a new request."""
        return next(self._numbers)

    def open(self) -> list[Message]:
        """What was asked and has not been answered: a break may have swallowed it."""
        return [message for message in list(self._open.values()) if message is not None]

    def expect(self, request: int, message: Message | None = None) -> None:
        """There will be an answer. ``message``: the request, to be sent again; None: others see to that."""
        self._open[request] = message

    def take(self, reply: Reply) -> None:
        """An answer has come; nobody may wait for it."""
        if reply.request in self._open:
            del self._open[reply.request]
            if reply.request not in self._unawaited:
                self._replies[reply.request] = reply
            self._unawaited.discard(reply.request)

    def ask(self, make: Callable[[int], Message], timeout_s: float | None = ANSWER_TIMEOUT_S) -> Any:
        """Send a request and wait for its answer. Raises `ClusterError` when there is none in time."""
        request = self.number()
        message = make(request)
        self.expect(request, message)
        try:
            self._tell(message)
        except BaseException:
            del self._open[request]
            raise
        return self.answer(request, timeout_s)

    def tell(self, make: Callable[[int], Message]) -> None:
        """Send a request whose answer only confirms that it has arrived: nobody waits for that."""
        request = self.number()
        message = make(request)
        self._unawaited.add(request)
        self.expect(request, message)
        self._tell(message)

    def answer(self, request: int, timeout_s: float | None = ANSWER_TIMEOUT_S) -> Any:
        """Wait for the answer to a request that is expected."""
        try:
            self._wait(lambda: request in self._replies, timeout_s)
        finally:
            self._open.pop(request, None)
            reply = self._replies.pop(request, None)
        if reply is None:
            raise ClusterError(f"the hub of cluster {self._cluster} has not answered within {timeout_s:g} s")
        return reply
