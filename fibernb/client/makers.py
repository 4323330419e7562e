"""Actors and placement groups: objects that a message makes, and that end when nobody holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from fibernb.client.entries import Entries, checked
from fibernb.client.refs import ObjectRef, Owner
from fibernb.client.requests import Requests
from fibernb.core.messages import (
    ActorFound,
    CreateActor,
    CreateGroup,
    FindActor,
    KillActor,
    Message,
    RemoveGroup,
    SignalActor,
)
from fibernb.errors import NameTaken, NotConnected
from fibernb.model import ActorOptions, Digest, ObjectId, Resources, TaskId
from fibernb.serialize import Packed


class Maker(Owner, Protocol):
    """What this needs of the session."""

    def parent(self) -> TaskId | None: ...

    def borrow(self, id_: ObjectId) -> ObjectRef: ...

    def tell(self, message: Message) -> None: ...

    def leave_soon(self) -> None: ...


class Makers:
    """Those methods of a session that make and end such objects, and find them.

    Parameters
    ----------
    session : whose methods these are.
    entries : where what is made is entered.
    requests : where answers of the hub come in.
    """

    def __init__(self, session: Maker, entries: Entries, requests: Requests) -> None:
        self._session = session
        self._entries = entries
        self._requests = requests

    def create_actor(
        self,
        function: Digest,
        packed: Packed,
        inputs: Sequence[ObjectRef] = (),
        *,
        options: ActorOptions,
        about: bytes = b"",
        get_if_exists: bool = False,
    ) -> tuple[ObjectRef, bytes]:
        """Make an actor of the class with this digest: its object, and what handles need to know of it.

        The object ends when nobody holds its reference. With a name the hub is asked first: it is the actor that there
        is, with ``get_if_exists``, or else `NameTaken` says that the name is taken.
        """
        ref = ObjectRef(self._entries.new_ids(1), self._session)
        args, deps, keep = self._entries.take_inputs(checked(packed), inputs)
        message = CreateActor(
            actor=ref.id,
            function=function,
            args=args,
            deps=deps,
            refs=packed.refs,
            options=options,
            about=about,
            parent=self._session.parent(),
            request=self._requests.number() if options.name else 0,
            get_if_exists=get_if_exists,
        )
        if options.name:
            self._requests.expect(message.request)  # it is sent again as long as it is held
        self._entries.make(ref, message, keep)
        self._session.leave_soon()
        return self._named(ref, message) if options.name else (ref, about)

    def _named(self, ref: ObjectRef, message: CreateActor) -> tuple[ObjectRef, bytes]:
        """The actor that has the name now, be it the new one or another."""
        found: ActorFound = self._requests.answer(message.request)
        if found.actor == ref.id:
            self._entries.replace_origin(ref, msgspec.structs.replace(message, request=0))
            return ref, message.about
        self._entries.forgo(ref)
        if not found.actor:
            raise NameTaken(found.problem)
        self._entries.found(found.actor)
        return self._session.borrow(found.actor), found.about

    def find_actor(self, name: str, namespace: str = "") -> tuple[ObjectId, bytes] | None:
        """The actor of that name, and what handles need to know of it; None when there is none."""
        found: ActorFound = self._requests.ask(
            lambda request: FindActor(request=request, name=name, namespace=namespace)
        )
        if not found.actor:
            return None
        self._entries.found(found.actor)
        return found.actor, found.about

    def kill_actor(self, actor: ObjectRef, no_restart: bool = True) -> None:
        """End an actor at once; without ``no_restart`` it starts again, if it may."""
        check_own(self._session, actor)
        message = KillActor(actor=actor.id, no_restart=no_restart)
        if no_restart:
            self._entries.replace_origin(actor, message)
        self._session.tell(message)

    def signal_actor(self, actor: ObjectRef, number: int) -> None:
        """Send a signal to the process of an actor; one that is not there yet ends as if that had killed it.

        Raises `NotConnected` when the session has ended.
        """
        check_own(self._session, actor)
        self._requests.tell(lambda request: SignalActor(request=request, actor=actor.id, signal=number))

    def create_group(
        self, bundles: Sequence[Resources], strategy: str = "PACK", *, name: str = "", detached: bool = False
    ) -> ObjectRef:
        """Reserve resources: an object that is there once they are."""
        ref = ObjectRef(self._entries.new_ids(1), self._session)
        message = CreateGroup(group=ref.id, bundles=list(bundles), strategy=strategy, name=name, detached=detached)
        self._entries.make(ref, message)
        self._session.leave_soon()
        return ref

    def remove_group(self, group: ObjectRef) -> None:
        """Give the resources of a placement group back."""
        check_own(self._session, group)
        message = RemoveGroup(group=group.id)
        self._entries.replace_origin(group, message)
        self._session.tell(message)


def check_own(session: Owner, ref: ObjectRef) -> None:
    """Raise `NotConnected` for a reference of another session."""
    if ref.session is not session:
        raise NotConnected(f"{ref!r} belongs to another cluster, or to one that has ended")
