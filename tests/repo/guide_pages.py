"""Pages of the guide as notebooks: what their blocks of code say, and what comes of them in a real kernel.

A fenced block of a page is one of these: ``python`` is a cell, ``text`` what the cell before it shows, ``console``
commands of a shell, each after a dollar sign and followed by what it prints, ``usage`` a synopsis. An ellipsis in what
is shown stands for anything. Measured numbers, process ids and the like may differ. What a cell asks for, say the
debugger, is answered as the page shows it.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jupyter_client.blocking.client import BlockingKernelClient

PATIENCE_S: Final = 30.0
KINDS: Final = ("python", "text", "console", "usage")

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_VARIES: Final = (
    (re.compile(r"\blocal-[0-9a-f]{4}\b"), "local-#"),
    (re.compile(r"\b[\d.,]+(?= (?:µs|ms|s|min|h|bytes|kB|MB|GB|%|lines)(?: |[,;:).…]|$))", re.MULTILINE), "#"),
    (re.compile(r"\bIn ?\[\d+\]"), "In[#]"),
    (re.compile(r"0x[0-9a-f]+"), "0x#"),
    (re.compile(r"^((?:\d+|extra \d+) +(?:idle|busy|starting) +)\d+", re.MULTILINE), r"\1#"),  # rows of `%fiber ps`
    (re.compile(r"(?<=: )(\d+ )(?:waiting|running)(?=>$)", re.MULTILINE), r"\1begun"),  # a cell that has just begun
    (re.compile(r"(?<=\S) {2,}"), " "),
    (re.compile(r"^\[\d+\](?= \(Pdb\))", re.MULTILINE), "[#]"),
)


@dataclass
class Block:
    """A block of code of a page."""

    kind: str
    text: str
    line: int  # of the page


@dataclass
class Cell:
    """Something that a page runs, and what it shows of its output; None where it shows nothing."""

    source: str
    line: int
    shown: str | None = None
    is_command: bool = False


@dataclass
class Output:
    """What a cell has shown, and whether it has ended with an error."""

    parts: list[str] = field(default_factory=list)
    failed: bool = False

    @property
    def text(self) -> str:
        """All of it, without colours."""
        return _ESCAPES.sub("", "".join(self.parts)).strip("\n")


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text()
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in _BLOCK.finditer(text)]


def cells_of(page: Path) -> list[Cell]:
    """What a page runs, in its order."""
    cells: list[Cell] = []
    for block in blocks_of(page):
        if block.kind == "python":
            cells.append(Cell(block.text.rstrip("\n"), block.line))
        elif block.kind == "text":
            cells[-1].shown = block.text.strip("\n")
        elif block.kind == "console":
            cells += _commands(block)
    return cells


def _commands(block: Block) -> Iterator[Cell]:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield Cell(command, block.line, printed.strip("\n") or None, is_command=True)


def run_command(command: str, directory: Path, environment: dict[str, str]) -> Output:
    """Run a command of a shell, as if FiberNB were installed there."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    ended = subprocess.run(
        command,
        shell=True,
        cwd=directory,
        env={**os.environ, **environment, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Output([ended.stdout], ended.returncode != 0)


def run_cell(client: BlockingKernelClient, cell: Cell) -> Output:
    """Run a cell as a front end does; what it asks for is answered as the page shows it."""
    output = Output()
    conversation = _Conversation(client, cell.shown or "", output)
    reply = client.execute_interactive(
        cell.source,
        output_hook=conversation.hear,
        stdin_hook=conversation.answer,
        allow_stdin=True,
        timeout=PATIENCE_S,
    )
    output.failed = reply["content"]["status"] != "ok"
    return output


def is_shown(shown: str, output: str) -> bool:
    """Whether a page tells the truth about an output."""
    wanted = ".*?".join(re.escape(part) for part in _comparable(shown).split("…"))
    return re.fullmatch(wanted, _comparable(output), re.DOTALL) is not None


class _Conversation:
    """Takes in what a cell shows, and answers what it asks for, in order, as the page does."""

    def __init__(self, client: BlockingKernelClient, shown: str, output: Output) -> None:
        self._client = client
        self._lines = shown.splitlines()
        self._said = 0  # lines of the page that have been said
        self._output = output

    def hear(self, message: dict[str, Any]) -> None:
        self._output.parts.append(_text_of(message))

    def answer(self, request: dict[str, Any]) -> None:
        prompt = request["content"]["prompt"]
        place = self._next_place(_comparable(prompt))
        self._hear_until("\n".join(self._lines[:place]))
        answer = _comparable(self._lines[place]).removeprefix(_comparable(prompt)).strip()
        self._said = place + 1
        self._output.parts.append(f"{prompt}{answer}\n")
        self._client.input(answer)

    def _next_place(self, prompt: str) -> int:
        """The line of the page that has the next answer."""
        for place, line in enumerate(self._lines[self._said :], self._said):
            if _comparable(line).startswith(prompt):
                return place
        raise AssertionError(f"the page shows no answer to {prompt!r}, after:\n{self._output.text}")

    def _hear_until(self, before: str) -> None:
        """What was written before a question may come after it, for it takes another way."""
        while not is_shown(before, self._output.text):
            try:
                self.hear(self._client.get_iopub_msg(timeout=PATIENCE_S))
            except queue.Empty:
                raise AssertionError(f"the page shows\n{before}\nbut there was\n{self._output.text}") from None


def _comparable(text: str) -> str:
    for pattern, instead in _VARIES:
        text = pattern.sub(instead, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines() if line.strip())


def _text_of(message: dict[str, Any]) -> str:
    kind, content = message["msg_type"], message["content"]
    if kind == "stream":
        return str(content["text"])
    if kind in ("execute_result", "display_data"):
        return str(content["data"].get("text/plain", "")) + "\n"
    return "\n".join(content["traceback"]) + "\n" if kind == "error" else ""
