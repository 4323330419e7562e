"""Values on their way from a worker to the owner: many quick ones in one message, a slow one at once."""

from __future__ import annotations

import threading
import time
from multiprocessing.pool import MaybeEncodingError  # type: ignore[attr-defined]
from typing import Any, Final

from fibernb.multiprocessing import reduction
from fibernb.multiprocessing.pooling.channel import Channel
from fibernb.multiprocessing.pooling.messages import Answer, Answers, Blobs, Form, ToWorker
from fibernb.multiprocessing.pooling.packing import FIXED, is_fixed, pack_error, together

FLUSH_S: Final = 0.001  # values wait for each other no longer, while their worker gets on


class Outbox:
    """Collects what the main thread has done. The watch may send it meanwhile.

    A value that nobody can change is pickled with its neighbours; any other at once, before a later call can change it.
    """

    def __init__(self, channel: Channel[ToWorker]) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._dumper = reduction.Dumper()
        self._piece = 0
        self._fixed: list[Any] = []
        self._pickled: list[bytes] = []
        self._answers: list[Answer] = []  # complete, to be sent with the next message
        self._since = 0.0  # when the first item began whose answer is not complete
        self._due = 0.0  # when what there is has to be sent

    def begin(self, piece: int) -> None:
        """The next values are those of that piece."""
        with self._lock:
            self._complete()
            self._piece = piece
            self._since = time.monotonic()

    def add(self, value: Any) -> None:
        """The value of the next item."""
        if type(value) in FIXED or is_fixed(value):
            if self._pickled:
                self._close()
            self._fixed.append(value)
        else:
            if self._fixed:
                self._close()
            if not self._add_pickled(value):
                return
        if time.monotonic() >= self._due:
            self.flush()

    def fail(self, error: BaseException, *, remote: bool = True) -> None:
        """The next item raised this."""
        with self._lock:
            self._complete()
            self._answers.append(self._answer(1, pack_error(error, remote=remote)))
        self.flush()

    def flush(self) -> None:
        """Send what there is."""
        with self._lock:
            self._complete()
            answers, self._answers = self._answers, []
            self._due = time.monotonic() + FLUSH_S
            if answers:
                self.send(Answers(answers=answers))

    def flush_old(self) -> None:
        """Send what there is, if it has waited."""
        if time.monotonic() >= self._due:
            self.flush()

    def is_filled(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._fixed or self._pickled or self._answers)

    def send(self, message: Any) -> None:
        """Send a message."""
        with self._sending:
            self._channel.send(message)

    def _add_pickled(self, value: Any) -> bool:
        try:
            self._pickled.append(self._dumper.dumps(value))
        except Exception as error:  # noqa: BLE001  whatever a user's class raises
            self.fail(MaybeEncodingError(error, value), remote=False)
            return False
        return True

    def _close(self) -> None:
        with self._lock:
            self._complete()

    def _complete(self) -> None:
        """Make an answer of the values so far. Under the lock; the main thread may add meanwhile."""
        count = len(self._fixed)
        if count:
            values = together(self._fixed[:count])
            del self._fixed[:count]
            self._answers.append(self._answer(count, values))
        count = len(self._pickled)
        if count:
            self._answers.append(self._answer(count, Blobs(form=Form.APART, data=self._pickled[:count])))
            del self._pickled[:count]

    def _answer(self, count: int, values: Blobs) -> Answer:
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        return Answer(piece=self._piece, count=count, values=values, seconds=seconds)
