"""Cells that ask for input, answered as a front end does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.notebook.kernel import PATIENCE_S, Kernel, Reply


@dataclass
class Dialogue:
    """A cell that asks, what it asked, and what it brought forth."""

    kernel: Kernel
    reply: Reply
    prompts: list[str]

    def answer(self, line: str) -> None:
        """Wait for the next prompt, and type a line."""
        self.wait_for_prompt()
        self.kernel.client.input(line)

    def wait_for_prompt(self) -> None:
        message = self.kernel.client.get_stdin_msg(timeout=PATIENCE_S)
        self.prompts.append(message["content"]["prompt"])

    def finish(self) -> Reply:
        """Wait for the end of the cell."""
        return self.kernel.finish(self.reply)


def begin(kernel: Kernel, source: str, *, can_ask: bool = True) -> Dialogue:
    """Send a cell, and do not wait."""
    return Dialogue(kernel, kernel.start(source, can_ask=can_ask), [])


def talk(kernel: Kernel, source: str, lines: Sequence[str]) -> Reply:
    """Run a cell to its good end, with a line for each time that it asks."""
    dialogue = begin(kernel, source)
    for line in lines:
        dialogue.answer(line)
    reply = dialogue.finish()
    assert reply.status == "ok", reply.messages
    return reply
