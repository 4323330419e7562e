"""What code of an actor can say about its own actor, and the classes of actors, by the names of ``ray.actor``."""

from __future__ import annotations

from fibernb.client.actor_options import method
from fibernb.client.actors import ActorClass
from fibernb.client.handles import ActorHandle, ActorMethod
from fibernb.engine.actors import exit_actor

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor", "method"]
