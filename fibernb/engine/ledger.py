"""What an engine has received, what of it will not be run, and which results are not known to have arrived. Pure.

The engine's threads share it; every method is safe to call from the thread that it belongs to.

A call has a position, counted over all calls that this engine was ever sent. The hub may take back positions that the
engine has not even read yet, so taking back is a matter of ranges: the control thread compares with the count of
started calls, and the main thread later skips what was taken back.

`begin` and `end` are run for every task and take no lock. They, and what the control thread does meanwhile, are right
because of the order in which they write and read:

- `begin` writes ``current`` and ``started``, then reads what was taken back and stopped; `recall` and `stop` write
  these first and then read. So at least one of the two sides sees the other. If it is `begin`, it waits for the lock
  and goes by what was decided.
- `begin` writes ``current`` before ``started``, and `end` adds the result before it resets ``current``; `restand` reads
  ``started``, ``current``, then the results. So there is no moment at which a call would be in none of them.

Calls of an actor that runs several at a time are handed out (`hand_out`), begin in any order (`begin_beside`) and end
in any order (`end_beside`). The same orders of writing and reading hold for them, with ``_beside`` for ``current``.

Calls that clients have sent themselves have no position. What they came to is kept, for the hub may send the same call
after all: then it is not run a second time. `end_direct` keeps the result, resets ``current``, then looks whether the
hub waits for it; `restand` notes that the hub does, then looks at what is kept.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from typing import Final, NamedTuple

from fibernb.core.messages import Done, Recall, Recalled, Run
from fibernb.model import Call, Result, TaskId

MAX_STOPPED: Final = 10_000  # tasks that are remembered not to be begun
MAX_ANSWERS: Final = 256  # clients whose last call is remembered


class Verdict(enum.Enum):
    """What is to be done with the next call."""

    RUN = enum.auto()
    SKIP = enum.auto()  # it was taken back
    STOP = enum.auto()  # it was interrupted before it began


class Ended(NamedTuple):
    """What a call has come to, when it began, and how long it took."""

    result: Result
    began_s: float
    run_s: float


class Standing(NamedTuple):
    """What a new hub has to know; the fields are those of `fibernb.wire.handshake.EngineHello`."""

    received: int
    holds: list[TaskId]
    running: bool
    redelivers: list[Done]


class Ledger:
    """The books of one engine. ``current`` is the task that runs, 0 for none. ``is_over``: no call will be run or ended
    any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.generation = 0  # of the link to the hub
        self.started = 0  # position of the first call that has not been begun
        self.current: TaskId = 0
        self.is_over = False
        self._received = 0
        self._calls: deque[tuple[int, list[Call]]] = deque()  # position of the first, calls
        self._recalled: list[range] = []
        self._stopped: dict[TaskId, None] = {}
        self._fresh: deque[Result] = deque()  # in no `Done` yet
        self._fresh_s = 0.0
        self._fresh_began_s = 0.0  # when the first of them began; 0: there is none
        self._beside: dict[TaskId, bool] = {}  # handed out and not ended; whether it has begun
        self._kept: deque[Done] = deque()
        self._sequence = 0
        self.direct: dict[TaskId, None] = {}  # calls that clients have sent themselves and that have not ended
        self.answers: dict[TaskId, Ended] = {}  # what such calls came to; of each client the last one
        self._expected: set[TaskId] = set()  # such calls that the hub waits for

    # ---- the main thread ---------------------------------------------------------------------------------

    def accept(self, runs: list[Run], generation: int) -> bool:
        """Take in calls. False when the link that they came over is not the present one: then they do not count."""
        with self._lock:
            if generation != self.generation:
                return False
            waiting = self._calls
            while waiting and waiting[0][0] + len(waiting[0][1]) <= self.started:
                waiting.popleft()
            for run in runs:
                waiting.append((run.position, run.calls))
                self._received = run.position + len(run.calls)
            return True

    def begin(self, position: int, task: TaskId) -> Verdict:
        """Begin the call at a position, unless it was taken back or interrupted."""
        self.current = task
        self.started = position + 1
        if not self._recalled and not self._stopped:
            return Verdict.RUN
        return self._begin_with_care(position, task)

    def _begin_with_care(self, position: int, task: TaskId) -> Verdict:
        with self._lock:
            if self._is_recalled(position):
                self.current = 0
                return Verdict.SKIP
            if task in self._stopped:
                del self._stopped[task]
                return Verdict.STOP
            while self._recalled and self._recalled[0].stop <= position:
                del self._recalled[0]
            return Verdict.RUN

    def _is_recalled(self, position: int) -> bool:
        return any(position in positions for positions in self._recalled)

    def end(self, result: Result, began_s: float, run_s: float) -> None:
        """The current call, or one that was not begun, has this result after so many seconds."""
        if not self._fresh_began_s:
            self._fresh_began_s = began_s
        self._fresh_s += run_s  # may lose a little when results are packed just now: it is a measurement
        self._fresh.append(result)
        self.current = 0

    def begin_direct(self, task: TaskId) -> Verdict:
        """Begin a call that a client has sent itself, unless it was interrupted."""
        self.direct[task] = None
        self.current = task
        if not self._stopped:
            return Verdict.RUN
        with self._lock:
            if task not in self._stopped:
                return Verdict.RUN
            del self._stopped[task]
            return Verdict.STOP

    def hand_out_direct(self, task: TaskId) -> None:
        """Give a call that a client has sent itself to those that run beside each other."""
        self.direct[task] = None
        self._beside[task] = False

    def end_direct(self, ended: Ended) -> None:
        """Such a call has come to this."""
        task = ended.result.id
        self._remember(task, ended)
        if self.current == task:
            self.current = 0
        self.direct.pop(task, None)
        self._beside.pop(task, None)
        if task in self._expected:
            self._expected.discard(task)
            self._fresh.append(ended.result)

    def _remember(self, task: TaskId, ended: Ended) -> None:
        self.answers[task] = ended
        while len(self.answers) > MAX_ANSWERS:
            del self.answers[next(iter(self.answers))]

    def take_known(self, position: int, task: TaskId) -> bool:
        """Whether a client has sent this call itself before; then the hub gets the result, now or when there is one."""
        if task in self.direct:
            self.started = position + 1
            self._expected.add(task)
            return True
        ended = self.answers.pop(task, None)
        if ended is None:
            return False
        if self.begin(position, task) is not Verdict.SKIP:
            self.end(*ended)
        return True

    def add(self, item: Result) -> None:
        """A result of a call that goes on."""
        self._fresh.append(item)

    def hand_out(self, position: int, task: TaskId) -> bool:
        """Give a call to those that run beside each other. False when it was taken back."""
        self._beside[task] = False
        self.started = position + 1
        if not self._recalled:
            return True
        with self._lock:
            if not self._is_recalled(position):
                return True
            del self._beside[task]
            return False

    # ---- whichever thread runs a call that was handed out ---------------------------------------------------

    def begin_beside(self, task: TaskId) -> Verdict:
        """Begin a call that was handed out, unless it was interrupted."""
        self._beside[task] = True
        if not self._stopped:
            return Verdict.RUN
        with self._lock:
            if task not in self._stopped:
                return Verdict.RUN
            del self._stopped[task]
            return Verdict.STOP

    def end_beside(self, result: Result, began_s: float, run_s: float) -> None:
        """As `end`, for a call that was handed out."""
        if not self._fresh_began_s:
            self._fresh_began_s = began_s
        self._fresh_s += run_s
        self._fresh.append(result)
        self._beside.pop(result.id, None)

    # ---- either thread -----------------------------------------------------------------------------------

    def pack(self) -> Done | None:
        """All results since the last time as a message, which is kept until the hub says to forget it."""
        with self._lock:
            return self._pack()

    def _pack(self) -> Done | None:
        if not self._fresh:
            return None
        self._sequence += 1
        results = [self._fresh.popleft() for _ in range(len(self._fresh))]
        done = Done(sequence=self._sequence, results=results, run_s=self._fresh_s, began_s=self._fresh_began_s)
        self._fresh_s = self._fresh_began_s = 0.0
        self._kept.append(done)
        return done

    @property
    def has_results(self) -> bool:
        """Whether there are results in no message yet."""
        return bool(self._fresh)

    @property
    def is_running(self) -> bool:
        """Whether a call has begun, or was handed out, and has not ended."""
        return self.current != 0 or bool(self._beside)

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to run or to send of what was received."""
        return not self._fresh and (self.is_over or (self.started >= self._received and not self.is_running))

    def forget(self, sequence: int) -> list[Done]:
        """Drop messages up to this sequence number: their results have arrived. Returns them."""
        dropped: list[Done] = []
        with self._lock:
            while self._kept and self._kept[0].sequence <= sequence:
                dropped.append(self._kept.popleft())
        return dropped

    # ---- the control thread ------------------------------------------------------------------------------

    def recall(self, message: Recall) -> Recalled:
        """Give back what has not been begun."""
        with self._lock:
            self._recalled.append(range(message.position, message.until))
            position = min(max(message.position, self.started), message.until)
            self._recalled[-1] = range(position, message.until)
            return Recalled(position=position, until=message.until)

    def stop(self, task: TaskId) -> bool:
        """Whether the task runs now and has to be interrupted. If it does not, it will not be begun."""
        with self._lock:
            self._stopped[task] = None
            if task == self.current or self._beside.get(task, False):
                del self._stopped[task]
                return True
            if len(self._stopped) > MAX_STOPPED:
                del self._stopped[next(iter(self._stopped))]
            return False

    def restand(self) -> tuple[Standing, int]:
        """The link is a new one: where things stand, and the generation of the link.

        What came over the old link and was not accepted yet does not count; its positions will be given anew.
        """
        with self._lock:
            self.generation += 1
            self._recalled = [range(r.start, min(r.stop, self._received)) for r in self._recalled]
            started, current, beside = self.started, self.current, self._beside.copy()
            self._expected.update(self.direct.copy())
            self._fresh.extend(ended.result for ended in list(self.answers.values()))
            packed = self._pack()
            finished = {result.id for result in packed.results} if packed else set()
            begun = [call.id for call in self._calls_from(started - 1) if call.id == current]
            begun += [current] if current in self.direct else []
            begun += [task for task, has_begun in beside.items() if has_begun]
            due = [task for task, has_begun in beside.items() if not has_begun]
            due += [call.id for call in self._calls_from(started) if call.id != current and call.id not in beside]
            holds = [task for task in begun + due if task not in finished]
            running = not finished.issuperset(begun)
            return Standing(self._received, holds, running, list(self._kept)), self.generation

    def _calls_from(self, position: int) -> list[Call]:
        """Calls received for positions from this one on, without those taken back."""
        return [
            call
            for first, calls in self._calls
            for at, call in enumerate(calls, first)
            if at >= position and not self._is_recalled(at)
        ]
