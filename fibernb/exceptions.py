"""Errors by the names of ``ray.exceptions``.

Most are other names of what `fibernb.errors` has. `RayTaskError` is more: an exception that a task raised comes back as
itself, of its own class; once a program has named `RayTaskError`, it is of that class as well, so that both
``except ValueError`` and ``except RayTaskError`` match it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fibernb.client import dressing
from fibernb.errors import (
    ActorDied,
    AuthError,
    ClusterError,
    EnvironmentFailed,
    FibernbError,
    GetTimeout,
    NameTaken,
    ObjectLost,
    OutOfMemory,
    SerializationError,
    StoreFull,
    TaskCancelled,
    TaskUnschedulable,
    TooManyCalls,
    WorkerDied,
)

if TYPE_CHECKING:
    from fibernb.client.dressing import TaskFailed as RayTaskError

__all__ = [
    "ActorAlreadyExistsError",
    "ActorDiedError",
    "ActorHandleNotFoundError",
    "ActorPlacementGroupRemoved",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "AuthenticationError",
    "GetTimeoutError",
    "LocalRayletDiedError",
    "NodeDiedError",
    "ObjectFetchTimedOutError",
    "ObjectFreedError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "ObjectReconstructionFailedLineageEvictedError",
    "ObjectReconstructionFailedMaxAttemptsExceededError",
    "ObjectStoreFullError",
    "OutOfDiskError",
    "OutOfMemoryError",
    "OwnerDiedError",
    "PendingCallsLimitExceeded",
    "PlasmaObjectNotAvailable",
    "RayActorError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "RuntimeEnvSetupError",
    "TaskCancelledError",
    "TaskPlacementGroupRemoved",
    "TaskUnschedulableError",
    "UnserializableException",
    "WorkerCrashedError",
]

RayError: Final = FibernbError
RaySystemError: Final = ClusterError
AuthenticationError: Final = AuthError

RayActorError: Final = ActorDied
ActorDiedError: Final = ActorDied
ActorUnavailableError: Final = ActorDied
ActorHandleNotFoundError: Final = ActorDied
ActorAlreadyExistsError: Final = NameTaken

WorkerCrashedError: Final = WorkerDied
LocalRayletDiedError: Final = WorkerDied
NodeDiedError: Final = WorkerDied
OutOfMemoryError: Final = OutOfMemory

TaskCancelledError: Final = TaskCancelled
TaskUnschedulableError: Final = TaskUnschedulable
ActorUnschedulableError: Final = TaskUnschedulable
TaskPlacementGroupRemoved: Final = TaskUnschedulable
ActorPlacementGroupRemoved: Final = TaskUnschedulable
RuntimeEnvSetupError: Final = EnvironmentFailed

PendingCallsLimitExceeded: Final = TooManyCalls
GetTimeoutError: Final = GetTimeout
ObjectStoreFullError: Final = StoreFull
OutOfDiskError: Final = StoreFull
ObjectLostError: Final = ObjectLost
ObjectFetchTimedOutError: Final = ObjectLost
ObjectFreedError: Final = ObjectLost
ObjectReconstructionFailedError: Final = ObjectLost
ObjectReconstructionFailedLineageEvictedError: Final = ObjectLost
ObjectReconstructionFailedMaxAttemptsExceededError: Final = ObjectLost
OwnerDiedError: Final = ObjectLost
PlasmaObjectNotAvailable: Final = ObjectLost
UnserializableException: Final = SerializationError


def __getattr__(name: str) -> Any:
    if name == "RayTaskError":
        return dressing.name_task_error()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
