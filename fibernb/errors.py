"""Every error that FiberNB itself raises, as one tree.

Errors that a user's own code raises are not here: they come back as themselves, with the remote
traceback as ``__cause__`` (see `RemoteTraceback`).
"""

from __future__ import annotations

import pickle
import signal


class FibernbError(Exception):
    """Root of all errors of FiberNB."""


class ConfigError(FibernbError, ValueError):
    """A setting, option or argument has a value that cannot be used."""


class NameTaken(ConfigError):
    """An actor is to have a name that another one has."""


class ClusterError(FibernbError):
    """The cluster as a whole cannot do what was asked."""


class BackendError(ClusterError):
    """Engines or nodes could not be started, watched or stopped."""


class ScaleTimeout(ClusterError, TimeoutError):
    """Fewer seats than asked for were ready in time."""


class NotConnected(ClusterError, ConnectionError):
    """There is no cluster, or the link to it is gone."""


class VersionMismatch(ClusterError):
    """The two sides run versions of FiberNB or Python that cannot work together."""


class AuthError(ClusterError, PermissionError):
    """The other side does not accept our key, or we do not accept theirs."""


class ProtocolError(FibernbError):
    """A message is malformed, too large, or not allowed at this point."""


class SerializationError(FibernbError, TypeError, pickle.PicklingError):
    """A value cannot be pickled; the message names the path to the culprit."""


class CellTimeout(FibernbError, TimeoutError):
    """A cell ran longer than its ``--timeout`` and was cancelled."""


class GetTimeout(FibernbError, TimeoutError):
    """A result was not there in time; the task goes on."""


class TaskError(FibernbError):
    """A task could not be brought to a result, for a reason outside the user's code."""


class TaskCancelled(TaskError):
    """The task was cancelled before it had a result."""

    engine_replaced: bool = False
    """Whether it did not stop by itself, so that its engine was ended."""


class TaskUnschedulable(TaskError):
    """No seat that this cluster can ever have would fit the task."""


class ObjectLost(TaskError):
    """Every copy of a value is gone and it cannot be made again."""


class StoreFull(FibernbError, MemoryError):
    """A value does not fit into the object store, neither in memory nor on disk."""


class EnvironmentFailed(TaskError):
    """The runtime environment that a task or an actor asks for could not be made."""


class ActorDied(TaskError):
    """The actor has ended; the message says why and what becomes of its calls.

    ``exit_code`` is that of its process; negative is the number of a signal; None while that is not known.
    """

    def __init__(self, message: str = "", exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class TooManyCalls(FibernbError):
    """An actor has as many unfinished calls of this process as its ``max_pending_calls`` allows."""


class WorkerDied(TaskError):
    """The engine that ran a task ended, and the task's retries are used up.

    Parameters
    ----------
    rank : seat of the engine.
    node : name of its node.
    exit_code : what the process returned; negative is the number of the signal that killed it.
    last_output : the last lines that it wrote.
    evidence : what else is known of its end, such as memory at death.
    """

    def __init__(self, rank: int, node: str, exit_code: int | None, last_output: str = "", evidence: str = "") -> None:
        self.rank = rank
        self.node = node
        self.exit_code = exit_code
        self.last_output = last_output
        self.evidence = evidence
        super().__init__(rank, node, exit_code, last_output, evidence)

    @property
    def signal(self) -> int | None:
        """Number of the signal that ended the engine, if one did."""
        return -self.exit_code if self.exit_code is not None and self.exit_code < 0 else None

    def __str__(self) -> str:
        number = self.rank if self.rank >= 0 else f"extra {-self.rank}"  # the latter stands beside the seats
        parts = [f"engine {number} on {self.node} {self._manner()}"]
        if self.evidence:
            parts.append(self.evidence)
        text = "; ".join(parts)
        if self.last_output.strip():
            text += f"\nits last output:\n{self.last_output.rstrip()}"
        return text

    def _manner(self) -> str:
        if self.exit_code is None:
            return "was lost"
        if self.signal is None:
            return f"exited with code {self.exit_code}"
        try:
            return f"was killed by signal {self.signal} ({signal.Signals(self.signal).name})"
        except ValueError:
            return f"was killed by signal {self.signal}"


class OutOfMemory(WorkerDied):
    """The engine was stopped because its node was running out of memory; ``evidence`` has the figures."""


class RingBroken(FibernbError):
    """A collective cannot be completed, since a member of the ring takes no part (any more).

    Parameters
    ----------
    rank : the member that is the cause.
    reason : what became of it, as the end of a sentence that begins with its name.
    call : what cannot be completed.
    """

    def __init__(self, rank: int, reason: str, call: str = "") -> None:
        self.rank = rank
        self.reason = reason
        self.call = call
        super().__init__(rank, reason, call)

    def __str__(self) -> str:
        told = f"rank {self.rank} {self.reason}"
        return f"{self.call} cannot be completed: {told}" if self.call else told


class RemoteTraceback(Exception):
    """The text of a traceback on an engine; stands as ``__cause__`` of the user's own exception."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)

    def __str__(self) -> str:
        return f"\n{self.text.rstrip()}"


def message_of(error: BaseException) -> str:
    """What an error says; of one whose class cannot tell, why."""
    try:
        return str(error)
    except Exception as problem:  # noqa: BLE001  a user's class may raise anything
        return f"<no message: its __str__ raised {type(problem).__name__}>"


def annotate(error: BaseException, note: str) -> None:
    """Add a note to an error; in the place of what its owner may have made of its notes, if that is no list."""
    try:
        error.add_note(note)
    except TypeError:
        error.__notes__ = [note]
