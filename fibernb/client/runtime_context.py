"""Where code runs: in the notebook, in a task, or in an actor."""

from __future__ import annotations

import os
import platform
from typing import Any

from fibernb.client import current, environments, job, seeing
from fibernb.client.handles import ActorHandle, handle_of
from fibernb.engine import context
from fibernb.errors import ClusterError
from fibernb.model import client_of


class RuntimeContext:
    """Where this code runs. Ids are hexadecimal, as the state of the cluster shows them."""

    def get_job_id(self) -> str:
        """The client whose work this is: this process, or that which submitted the task that runs here."""
        engine = context.current()
        if engine is not None and engine.task:
            return f"{client_of(engine.task):06x}"
        return f"{current.require().client:06x}"

    def get_node_id(self) -> str:
        """The host that this runs on."""
        engine = context.current()
        return (engine.node if engine is not None else "") or platform.node()

    def get_worker_id(self) -> str:
        """This process, in a form that no other one has."""
        return f"{platform.node()}-{os.getpid()}"

    def get_task_id(self) -> str | None:
        """The task that runs here; None in a client."""
        engine = context.current()
        return f"{engine.task:#x}" if engine is not None and engine.task else None

    def get_task_name(self) -> str | None:
        """What the task that runs here is called; None in a client."""
        engine = context.current()
        return engine.task_name if engine is not None and engine.task else None

    def get_task_function_name(self) -> str | None:
        """As `get_task_name`."""
        return self.get_task_name()

    def get_actor_id(self) -> str | None:
        """The actor that this runs in; None in none."""
        engine = context.current()
        return f"{engine.actor:#x}" if engine is not None and engine.actor else None

    def get_actor_name(self) -> str | None:
        """The name of the actor that this runs in: empty for none; None outside of actors."""
        engine = context.current()
        return engine.actor_name if engine is not None and engine.actor else None

    @property
    def current_actor(self) -> ActorHandle:
        """A handle of the actor that this runs in. Raises `ClusterError` outside of actors."""
        engine = context.current()
        if engine is None or not engine.actor:
            raise ClusterError("current_actor is the actor that asks, and this code does not run in one")
        return handle_of(engine.actor, engine.actor_about)

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether the actor that this runs in has been restarted."""
        engine = context.current()
        return engine is not None and bool(engine.actor) and engine.was_restarted

    @property
    def namespace(self) -> str:
        """Where the names of actors are looked for."""
        return job.current().namespace

    def get_placement_group_id(self) -> str | None:
        """The placement group that this runs in; None in none."""
        engine = context.current()
        return f"{engine.placement:#x}" if engine is not None and engine.placement else None

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether what this starts runs in its placement group too, if it does not say otherwise."""
        engine = context.current()
        return engine is not None and engine.captures

    def get_assigned_resources(self) -> dict[str, float]:
        """What the task or the actor that runs here was given, by Ray's names; nothing in a client."""
        engine = context.current()
        return {} if engine is None else seeing.by_name(engine.resources)

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """The numbers of the gpus that this may use, as text, by kind."""
        return {"GPU": [str(number) for number in get_gpu_ids()]}

    def get_resource_ids(self) -> dict[str, list[str]]:
        """Ray's older name of `get_accelerator_ids`."""
        return self.get_accelerator_ids()

    def get_runtime_env_string(self) -> str:
        """The runtime environment as JSON."""
        return job.current().environment or "{}"

    @property
    def runtime_env(self) -> dict[str, Any]:
        """The runtime environment."""
        return environments.described(job.current().environment)

    @property
    def gcs_address(self) -> str:
        """The name of the cluster."""
        return current.require().name

    def get(self) -> dict[str, Any]:
        """What there is of this, by Ray's keys."""
        found = {
            "job_id": self.get_job_id(),
            "node_id": self.get_node_id(),
            "namespace": self.namespace,
            "task_id": self.get_task_id(),
            "actor_id": self.get_actor_id(),
        }
        return {key: value for key, value in found.items() if value is not None}

    job_id = property(get_job_id)
    node_id = property(get_node_id)
    worker_id = property(get_worker_id)
    task_id = property(get_task_id)
    actor_id = property(get_actor_id)
    current_placement_group_id = property(get_placement_group_id)


def get_runtime_context() -> RuntimeContext:
    """Where this code runs."""
    return RuntimeContext()


def get_gpu_ids() -> list[int]:
    """The numbers of the gpus that the task or the actor which runs here may use; none in a client."""
    engine = context.current()
    return [] if engine is None else list(engine.gpus)
