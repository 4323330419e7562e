"""The parent's side of a process: an actor whose one call is the life of the process."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import os
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from functools import lru_cache
from multiprocessing import context as library
from multiprocessing import process, util
from typing import Any, Final

from fibernb import serialize
from fibernb.client import current, job
from fibernb.client.handles import ActorAbout, defined_method, encode_about
from fibernb.client.refs import ActorGroup, ObjectRef
from fibernb.client.session import Session, define
from fibernb.core.messages import HoldActor, Output, Said
from fibernb.engine import context
from fibernb.engine.reporter import owner
from fibernb.errors import ActorDied, FibernbError, NotConnected, TaskCancelled
from fibernb.model import ActorOptions, Outcome, TaskOptions
from fibernb.multiprocessing import child, descriptors, reduction
from fibernb.multiprocessing.ending import interrupt_children
from fibernb.multiprocessing.needs import resources_of
from fibernb.multiprocessing.preparation import prepared_for

UNKNOWN_EXIT_CODE: Final = 255  # as the library's, when nobody is left who could tell
FAILED_EXIT_CODE: Final = 1
MAX_PID: Final = 2**22  # on any Linux

_no_pids: Final = itertools.count(MAX_PID + 1)
host_class = lru_cache(1)(lambda: define(child.ProcessHost))


class Popen:
    """What the library's process objects need of a process that runs elsewhere.

    ``returncode`` is None until the end of the process has been noticed. ``problem`` is why it could not be started, if
    it could not; if the process object's ``tells_problem`` is true, that is written to stderr, too.
    """

    method: Final = "spawn"
    sentinel: Final = None  # made when it is wanted: see `ready_at_end`

    def __init__(self, process_obj: process.BaseProcess) -> None:
        util._flush_std_streams()  # type: ignore[attr-defined]
        self.returncode: int | None = None
        self.problem: BaseException | None = None
        self._tells_problem: bool = getattr(process_obj, "tells_problem", True)
        self._sentinel: Sentinel | None = None
        self._pid = next(_no_pids)
        self._session = current.session or current.require()
        with descriptors.collecting() as tickets:
            payload = self._pickled(process_obj)
        self._launch(process_obj, payload)
        if tickets:  # the child may end before it has taken what is behind them
            self._end.add_done_callback(lambda _: descriptors.withdraw(*tickets))

    def _pickled(self, process_obj: process.BaseProcess) -> bytes:
        with _spawning(self):
            return reduction.dumps(process_obj)

    def _launch(self, process_obj: process.BaseProcess, payload: bytes) -> None:
        session, name = self._session, process_obj.name
        resources = resources_of(getattr(process_obj, "_target", None), process_obj)
        actor = _create(session, ActorOptions(class_name=name, is_process=True, resources=resources))
        self._actor: ObjectRef | None = actor
        self._where: ObjectRef | None = _call(session, actor, name, "where")
        self._where.add_done_callback(lambda where: _note_begun(session, actor, where))
        self._end = _call(session, actor, name, "live", prepared_for(process_obj), payload)

    # ---- its life --------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """Of the process, once it has one; when it has ended before it began, a number that no process has."""
        where = self._where
        if where is not None:
            with contextlib.suppress(FibernbError):  # it has not come to live: its exit code tells
                self._pid, _ = where.result()
            self._where = None
        return self._pid

    def poll(self) -> int | None:
        """The exit code, if the process has ended."""
        if self.returncode is None and self._end.done():
            self._take_end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        """As `poll`, after waiting for the end for so many seconds; None waits as long as it takes."""
        if self.returncode is None:
            try:
                self._session.wait(self._end.done, None if timeout is None else max(0.0, timeout))
            except NotConnected:
                pass  # then the end is known, too
            except KeyboardInterrupt:
                interrupt_children()
                raise
        return self.poll()

    def _take_end(self) -> None:
        error = self._end.exception()
        self.returncode = _exit_code(error)
        if self.returncode is None:
            self.returncode, self.problem = FAILED_EXIT_CODE, error
            if self._tells_problem:
                sys.stderr.write(f"fibernb: a process could not be started: {type(error).__name__}: {error}\n")
        self._actor = None

    # ---- signals ---------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Send SIGINT."""
        self._send_signal(signal.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._send_signal(signal.SIGKILL)

    def _send_signal(self, number: int) -> None:
        if self.poll() is None and self._actor is not None:
            with contextlib.suppress(NotConnected):
                self._session.signal_actor(self._actor, number)

    # ---- its end ---------------------------------------------------------------------------------------------

    def ready_at_end(self) -> int:
        """A descriptor that is ready for reading once the process has ended. It is closed with `close`."""
        if self._sentinel is None:
            self._sentinel = Sentinel()
            self._end.add_done_callback(self._sentinel.fire)
            self._session.flush()
        return self._sentinel.fd

    def close(self) -> None:
        """Let go of what belongs to the process, which has ended."""
        if self._sentinel is not None:
            self._sentinel.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # elsewhere the process is somebody else's


@contextlib.contextmanager
def _spawning(popen: Any) -> Iterator[None]:
    """The library's objects may be pickled by this thread, which is starting a process."""
    library.set_spawning_popen(popen)
    try:
        yield
    finally:
        library.set_spawning_popen(None)


class Sentinel:
    """A pipe whose reading end is ready once its other end has been closed."""

    def __init__(self) -> None:
        self.fd, writing = os.pipe()
        self._lock = threading.RLock()
        self._close_writing = weakref.finalize(self, os.close, writing)
        self._close_reading = weakref.finalize(self, os.close, self.fd)

    def fire(self, *_: object) -> None:
        """Make it ready."""
        self._close_writing()

    def close(self) -> None:
        """It is not wanted any more."""
        self._close_writing()
        self._close_reading()


# ---- the actor ---------------------------------------------------------------------------------------------------


def _create(session: Session, options: ActorOptions) -> ObjectRef:
    definition = host_class()
    session.define(definition)
    packed, _ = serialize.pack_call((), {}, ObjectRef, None)
    options = job.fitted(options)
    about = encode_about(ActorAbout(class_name=options.class_name, methods={}))
    return session.create_actor(definition.digest, packed, options=options, about=about)[0]


def _call(session: Session, actor: ObjectRef, name: str, method: str, *args: Any) -> ObjectRef:
    """Call a method of the actor; what that writes comes out of this process's own streams."""
    definition = defined_method(f"{name}.{method}", method, "")
    session.define(definition)
    packed, _ = serialize.pack_call(args, {}, ObjectRef, session.store)
    group = ActorGroup(definition.digest, TaskOptions(name=name, max_retries=0), session.parent(), actor.id)
    spoken = _Spoken()
    refs, full = session.entries.enter_general(
        group, packed, (), lambda refs: session.inbox.listen([ref.id for ref in refs], spoken.hear)
    )
    session.leave_soon(full)
    return refs[0]


def _note_begun(session: Session, actor: ObjectRef, where: ObjectRef) -> None:
    """Should the hub be killed, and the process end meanwhile, then the next hub does not make it once more."""
    if where.answer is not None and where.answer.outcome is Outcome.OK:
        session.entries.replace_origin(actor, HoldActor(actor=actor.id, engine=where.result()[1]))


class _Spoken:
    """Writes what a process says where the code that has started it would write it: in a notebook, into its cell."""

    def __init__(self) -> None:
        self._context = contextvars.copy_context()
        engine = context.current()
        if engine is not None:
            self._context.run(owner.set, engine.task)

    def hear(self, said: Said) -> None:
        if isinstance(said, Output):
            self._context.run(_write, said)


def _write(said: Output) -> None:
    stream = sys.stderr if said.stream == "stderr" else sys.stdout
    stream.write(said.text)
    stream.flush()


def _exit_code(error: BaseException | None) -> int | None:
    """Of a process that has ended; None when it could not be started."""
    if isinstance(error, ActorDied):
        return UNKNOWN_EXIT_CODE if error.exit_code is None else error.exit_code
    if isinstance(error, NotConnected):
        return -signal.SIGKILL  # the node ends its engines with the cluster
    return -signal.SIGINT if isinstance(error, TaskCancelled) else None
