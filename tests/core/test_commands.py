import typing

import pytest

from fibernb.core import commands
from fibernb.core.commands import Command, KillEngine
from fibernb.model import Struct


def test_commands_are_frozen_and_can_be_compared() -> None:
    command = KillEngine(engine=1, reason="why")
    assert command == KillEngine(engine=1, reason="why")
    with pytest.raises(AttributeError):
        command.reason = "why not"  # type: ignore[misc]


def test_every_command_is_known() -> None:
    made = {kind for kind in vars(commands).values() if isinstance(kind, type) and kind.__module__ == commands.__name__}
    assert made == set(typing.get_args(Command))
    assert all(issubclass(kind, Struct) for kind in made)
