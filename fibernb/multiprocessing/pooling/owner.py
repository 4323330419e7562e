"""The owner's side of a pool: carries out what the ledger decides.

Calls are sent from the thread that makes them when a worker is idle. One thread serves all connections: it takes in
what the workers say, sends them what is next, tells results, and replaces workers that have gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from fibernb.client.interrupts import Deferral
from fibernb.errors import TaskUnschedulable
from fibernb.multiprocessing.pooling import members, packing
from fibernb.multiprocessing.pooling.asking import Asking
from fibernb.multiprocessing.pooling.codes import Codes
from fibernb.multiprocessing.pooling.demand import Demand
from fibernb.multiprocessing.pooling.failures import broken, died
from fibernb.multiprocessing.pooling.jobs import Job, Span
from fibernb.multiprocessing.pooling.ledger import STRAGGLE_S, Ledger
from fibernb.multiprocessing.pooling.members import Member
from fibernb.multiprocessing.pooling.messages import Answers, Blobs, Form, GiveBack, GivenBack, Ready, Stop, ToOwner
from fibernb.multiprocessing.pooling.results import Result
from fibernb.multiprocessing.pooling.sender import Order, Sender
from fibernb.multiprocessing.pooling.staff import Staff

UNFIT_STARTS: Final = 3  # workers in a row whose initializer raised: then the pool is broken
FAILED_STARTS: Final = 10  # the same, of workers that ended before they were ready; in a large pool, three for each


class Told(NamedTuple):
    """What a worker has answered."""

    job: Job
    span: Span
    values: Blobs


class Results(dict[int, Result]):
    """The results that are not complete, by the number of their job; they take themselves out."""

    def __init__(self, on_done: Callable[[int], object]) -> None:
        super().__init__()
        self._on_done = on_done

    def __delitem__(self, number: int) -> None:
        super().__delitem__(number)
        self._on_done(number)


class Owner:
    """Everything of a pool that goes on without its user.

    Parameters
    ----------
    wanted : how many workers.
    hire : starts a worker that needs so much.
    quota : how many items a worker runs before it is replaced; None: any number.
    max_retries : how often an item runs again after a worker died with it.
    demand : decides how many workers there are, if the pool follows its work.
    """

    def __init__(
        self,
        *,
        wanted: int,
        hire: Callable[[Mapping[str, float]], Member],
        quota: int | None,
        max_retries: int,
        demand: Demand | None,
    ) -> None:
        self.results = Results(self._forget)
        self.codes = Codes()
        self.staff = Staff(lambda: hire(self.asking.current), self._take_in, self._lose)
        self.wanted = wanted
        self.asking = Asking()
        self.is_ending = False
        self._quota = quota
        self._demand = demand
        self._ledger = Ledger(max_retries)
        self._members: dict[int, Member] = {}  # those that the ledger knows
        self._jobs: dict[int, Job] = {}
        self._passing: set[int] = set()  # functions that are not kept when their job is done
        self._lock = threading.RLock()
        self._sender = Sender(self._ledger, self._members, self._lock, self.codes, self._fail)
        self._whole = Deferral(_nothing)
        self._failed_starts = 0
        self._unfit_starts = 0
        self._unfit: BaseException | None = None  # what an initializer raised last
        self._broken: BaseException | None = None
        self._last_error: BaseException | None = None  # of what has no value when the pool ends
        self._is_closing = False
        self._abandoned: list[int] = []
        self._told: list[Told] = []  # answers whose results are to be told, once the workers have what is next
        self.thread = threading.Thread(target=self._serve, name="fibernb-pool", daemon=True)

    # ---- calls --------------------------------------------------------------------------------------------

    def submit(self, job: Job, result: Result, needs: Mapping[str, float]) -> None:
        """Run a job, which needs so much; its result, which is in `results` already, is told."""
        if needs:
            self._require(job.number, needs)
        with self._whole:
            if self._broken is not None:
                result.give_up(self._broken)
                return
            self._jobs[job.number] = job
            self.more(job)

    def more(self, job: Job) -> None:
        """A job has more to send than before."""
        with self._whole:
            with self._lock:
                self._ledger.add(job)
                orders = self._sender.orders()
            self._sender.send(orders)
        if self._demand is not None and not orders:
            self.staff.wake()

    def pass_on(self, number: int) -> None:
        """The function of that number is used by one job only."""
        self._passing.add(number)

    def abandon(self, number: int) -> None:
        """Nobody wants this job any more: stop what runs of it."""
        with self._whole:
            with self._lock:
                self._abandoned.append(number)
                job = self._jobs.get(number)
                holders = [] if job is None else self._ledger.drop(job)
                stopped = [self._members[worker] for worker in holders]
            for member in stopped:
                self.staff.expect_stop(member)
                member.send(Stop(job=number))
                member.process._popen.interrupt()
            self.staff.wake()

    def close(self) -> None:
        """No more calls come: end when all are done."""
        self._is_closing = True
        for number, result in list(self.results.items()):
            window = getattr(result, "window", None)
            job = self._jobs.get(number)
            if window is not None and job is not None:
                window.lift()
                self.more(job)
        self.staff.wake()

    def resize(self, wanted: int) -> None:
        """Have so many workers."""
        self.wanted = wanted
        self.staff.wake()

    def _require(self, number: int, needs: Mapping[str, float]) -> None:
        """Should a job need more than the workers have, others take their place, who ask the cluster for that."""
        with self._lock:
            if not self.asking.add(number, needs):
                return
            leaving = self.staff.active()
            for member in leaving:
                self._ledger.retire(member.number)
        self.staff.dismiss(leaving)
        self.staff.wake()

    def join(self) -> None:
        """Wait for the end, after `close` or `end`."""
        self.thread.join()
        for process in [*self.staff.processes, *self.staff.ended]:
            process.join()
        self.staff.close()

    def end(self, error: BaseException) -> None:
        """End at once; the error is that of what has no value yet. A callback may call this, too."""
        self._last_error = error
        self.is_ending = True
        self.staff.wake()
        is_callback = threading.current_thread() is self.thread
        if self.thread.is_alive() and not is_callback:
            self.thread.join()
        members.end([*self.staff.processes, *self.staff.ended])
        if not is_callback:  # else the thread does it, as soon as it can
            self._give_up(error)
            self.staff.close()

    # ---- the serving thread -------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            self._serve_on()
        except BaseException as error:  # nobody must wait for ever for what this thread does not do any more
            self._break(error)
            raise

    def _serve_on(self) -> None:
        while not self.is_ending and not (self._is_closing and not self.staff.members):
            self.staff.serve(self._patience_s())
            self._look_around()
            self._tell_all()
        if self._last_error is not None:
            self._give_up(self._last_error)

    def _look_around(self) -> None:
        """What does not depend on what was heard."""
        if self._abandoned:
            self._give_up_abandoned()
        if self._ledger.is_uneven():
            self._recall()
        if self.wanted != self.staff.active_count or self._is_closing or self._demand is not None:
            self._adjust()

    def _patience_s(self) -> float | None:
        if self._ledger.is_uneven():
            return STRAGGLE_S
        return None if self._demand is None else self._demand.look_again_s(time.monotonic())

    def _recall(self) -> None:
        """Take back what waits at workers while others are idle."""
        with self._lock:
            slow = [self._members[worker] for worker in self._ledger.stragglers(time.monotonic())]
        for member in slow:
            member.send(GiveBack())

    def _adjust(self) -> None:
        """Have as many workers as wanted."""
        if self._is_closing and not self.results:
            self.staff.dismiss(self.staff.active())
            return
        if self._demand is not None:
            self._follow(self._demand)
        surplus = self.staff.active_count - self.wanted
        if surplus < 0 and self._broken is None:
            try:
                self.staff.hire_up_to(self.wanted)
            except Exception as error:  # noqa: BLE001  whatever keeps processes from being started
                self._break(error)
        elif surplus > 0:
            self._retire(surplus)

    def _follow(self, demand: Demand) -> None:
        with self._lock:
            items, item_s, busy = self._ledger.waiting(), self._ledger.head_s(), self._ledger.busy_count()
        self.wanted = demand.wanted(
            now=time.monotonic(), current=self.staff.active_count, busy=busy, items=items, item_s=item_s
        )

    def _retire(self, count: int) -> None:
        """Let go of those that have least to do."""
        with self._lock:
            load = {number: hand.items for number, hand in self._ledger.hands.items()}
            leaving = sorted(self.staff.active(), key=lambda member: load.get(member.number, 0))[:count]
            for member in leaving:
                self._ledger.retire(member.number)
        self.staff.dismiss(leaving)

    # ---- what workers say ---------------------------------------------------------------------------------

    def _take_in(self, member: Member, messages: list[ToOwner]) -> None:
        orders: list[Order] = []
        with self._lock:
            for message in messages:
                self._take(member, message)
            hand = self._ledger.hands.get(member.number)
            if self._ledger.has_waiting():
                if hand is not None and hand.wants():
                    orders.append(Order(member, self._ledger.fill(member.number)))
                orders += self._sender.orders()
            if hand is not None and hand.is_spent():
                self.staff.dismiss([member])
        self._sender.send(orders)

    def _take(self, member: Member, message: ToOwner) -> None:
        now = time.monotonic()
        if isinstance(message, Answers):
            for answer in message.answers:
                found = self._ledger.answer(member.number, answer.piece, answer.count, answer.seconds, now)
                if found is not None:
                    self._told.append(Told(*found, answer.values))
        elif isinstance(message, GivenBack):
            self._ledger.give_back(member.number, message.pieces, now)
        elif isinstance(message, Ready):
            member.is_ready = True
            self._failed_starts = self._unfit_starts = 0
            self._members[member.number] = member
            self.asking.granted(member.process)
            self._ledger.join(member.number, self._quota, now)
            if member.is_dismissed:
                self._ledger.retire(member.number)
        else:
            self._unfit_starts += 1
            self._unfit = packing.unpack_error(message.error)
        if member.stop_by is not None and not self._ledger.holds_dropped(member.number):
            member.stop_by = None
            self.staff.has_stopped(member)

    def _tell_all(self) -> None:
        told, self._told = self._told, []
        for one in told:
            self._tell(one)

    def _tell(self, told: Told) -> None:
        job, span, blobs = told
        result = self.results.get(job.number)
        if result is None:
            return
        try:
            values = [packing.unpack_error(blobs.data[0])] if blobs.form is Form.ERROR else list(packing.unpack(blobs))
        except Exception as error:  # noqa: BLE001  whatever a user's class raises while it is loaded
            self._fail(job, ((index, error) for index in range(*span)))
            return
        if blobs.form is Form.ERROR:
            result.fail(span.start, values[0])
        else:
            result.settle(span.start, values)

    def _lose(self, member: Member, last: list[ToOwner]) -> None:
        """A worker has ended: what it held, and has not answered last, runs again."""
        with self._lock:
            for message in last:
                self._take(member, message)
            failures = self._ledger.lose(member.number)
            self._members.pop(member.number, None)
            orders = self._sender.orders()
        self._sender.send(orders)
        for failure in failures:
            self._fail(failure.job, [(failure.item, died(member.process, failure))])
        if isinstance(member.problem, TaskUnschedulable):
            self._deny(member, member.problem)
        elif not member.is_ready and not member.is_dismissed:
            self._failed_starts += 1
            if self._unfit_starts >= UNFIT_STARTS and self._unfit is not None:
                self._break(self._unfit)
            elif self._failed_starts >= max(FAILED_STARTS, 3 * self.wanted):
                self._break(broken(member.process, self._failed_starts))

    def _deny(self, member: Member, error: TaskUnschedulable) -> None:
        """The cluster can never have what this worker asked for."""
        with self._lock:
            jobs = self.asking.denied(member.process)
        if jobs is None:
            self._break(error)
        for number in jobs or ():
            if (result := self._dropped(number)) is not None:
                result.refuse(error)

    # ---- results ------------------------------------------------------------------------------------------

    def _fail(self, job: Job, errors: Iterable[tuple[int, BaseException]]) -> None:
        for index, error in errors:
            result = self.results.get(job.number)
            if result is not None:
                result.fail(index, error)

    def _break(self, error: BaseException) -> None:
        """No worker can be had: that is the answer to everything."""
        self._broken = error
        self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        for number in list(self.results):
            if (result := self._dropped(number)) is not None:
                result.give_up(error)

    def _dropped(self, number: int) -> Result | None:
        """Run no more of a job. Its result, if that is not complete."""
        if (job := self._jobs.get(number)) is not None:
            with self._lock:
                self._ledger.drop(job)
        return self.results.get(number)

    def _give_up_abandoned(self) -> None:
        with self._lock:
            abandoned, self._abandoned = self._abandoned, []
        for number in abandoned:
            result = self.results.get(number)
            if result is not None:
                result.give_up(None)

    def _forget(self, number: int) -> None:
        """A job is done, or nobody waits for it any more."""
        job = self._jobs.pop(number, None)
        self.asking.forget(number)
        if job is not None and job.function in self._passing:
            self._forget_function(job.function)
        if self._is_closing and not self.results:
            self.staff.wake()

    def _forget_function(self, number: int) -> None:
        self._passing.discard(number)
        self.codes.forget(number)
        for member in list(self.staff.members.values()):
            if number in member.known:
                member.known.discard(number)
                member.forget.append(number)


def _nothing() -> None:
    """A wait that an interrupt ends is none of this module's."""
