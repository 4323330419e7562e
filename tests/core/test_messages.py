import typing

import msgspec
import pytest

from fibernb.core import messages
from fibernb.core.messages import Message, Said

KINDS = [
    kind
    for kind in vars(messages).values()
    if isinstance(kind, type) and issubclass(kind, Message) and kind is not Message
]


@pytest.mark.parametrize("kind", KINDS)
def test_messages_are_frozen_and_tagged(kind: type[Message]) -> None:
    config = kind.__struct_config__
    assert (config.frozen, config.array_like, config.tag) == (True, True, kind.__name__)


def test_every_message_belongs_to_someone() -> None:
    unions = (messages.ClientMessage, messages.ToClient, messages.EngineMessage, messages.ToEngine)
    listed = {kind for union in unions for kind in typing.get_args(union)}
    assert listed == set(KINDS)
    assert set(typing.get_args(Said)) <= set(typing.get_args(messages.ToClient))


@pytest.mark.parametrize("kind", [messages.Goodbye, messages.Stop, messages.Detach, messages.Exit])
def test_messages_survive_the_wire(kind: type[Message]) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(kind()), type=kind) == kind()
