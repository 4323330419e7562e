"""Collecting what the sources of one cell write, within bounds, until it is shown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fibernb.core.messages import Progress, Said
from fibernb.model import Rank
from fibernb.notebook.excerpt import excerpt, lines_of, size_of
from fibernb.notebook.grouping import Block, Item, Mode, Rich, arranged, settled
from fibernb.notebook.source_output import SourceOutput

FULL_SHARES: Final = 16
"""How many ranks may each keep as much as the whole cell may show; with more of them each keeps less."""

LEAST_BYTES: Final = 4096
"""What a rank may keep however many there are."""

DISPLAY_SHARES: Final = 2
"""One display may take so many times what a rank may keep of text, if the whole cell may show as much."""

STREAMED_SOURCES: Final = 2048
"""With more of them nothing is shown before the end."""

STREAMED_DISPLAYS: Final = 4
"""How many displays are shown at once while a cell runs."""


class Fresh(NamedTuple):
    """What is to be shown now. ``cleared``: what was shown before is to go first."""

    cleared: bool
    blocks: list[Block]


class Gathered:
    """The output of a cell by source: a rank or, for ``--each``, an item.

    What stays as it is, whatever is written yet, can be shown while the cell runs, up to half of the limit: `fresh`.
    """

    def __init__(self, *, sources: Sequence[int], max_lines: int, max_bytes: int) -> None:
        self._sources = sources
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._outputs: dict[int, SourceOutput] = {}
        self._ended: set[int] = set()
        self._silent = set(sources)  # neither heard of nor ended
        self._shown_lines = 0
        self._shown_bytes = 0
        self._first: int | None = None  # whose output is shown, if only that of one is
        self._cleared = False  # what has been shown is to go at the end
        self._streams = len(sources) <= STREAMED_SOURCES

    def take(self, source: int, said: Said) -> None:
        """Add what a source said."""
        if isinstance(said, Progress):
            return
        if source not in self._outputs:
            self._outputs[source] = self._new_output()
            self._silent.discard(source)
        self._outputs[source].take(said)

    def end(self, source: int) -> None:
        """A source says no more."""
        self._ended.add(source)
        self._silent.discard(source)
        if source in self._outputs:
            self._outputs[source].end()

    def fresh(self, mode: Mode) -> Fresh:
        """What can be shown by now and has not been before."""
        if not self._streams or (mode == "auto" and self._silent):
            return Fresh(False, [])
        cleared = self._take_cleared()
        if cleared and len(self._sources) > 1:
            self._cleared, self._streams = True, False
            return Fresh(False, [])
        blocks = self._within_limits(settled(self._of_first(self._settling()), self._whole(), mode))
        self._hand_out(blocks)
        if mode == "first" and blocks:
            self._first = blocks[0].ranks[0]
        return Fresh(cleared, blocks)

    def rest(self, mode: Mode) -> Fresh:
        """All that is kept and has not been shown, at the end."""
        cleared = self._take_cleared() or self._cleared
        outputs = self._of_first({source: output.items() for source, output in self._outputs.items()})
        max_lines, max_bytes = self._max_lines - self._shown_lines, self._max_bytes - self._shown_bytes
        return Fresh(cleared, excerpt(arranged(outputs, mode), max_lines=max_lines, max_bytes=max_bytes))

    def last_lines(self) -> dict[Rank, str]:
        """The last line of text of every source that has one."""
        last = {source: output.last_line() for source, output in self._outputs.items()}
        return {source: line for source, line in last.items() if line}

    def _new_output(self) -> SourceOutput:
        share = max(1, len(self._sources) // FULL_SHARES)
        max_lines, max_bytes = max(2, self._max_lines // share), max(LEAST_BYTES, self._max_bytes // share)
        return SourceOutput(max_lines, max_bytes, min(self._max_bytes, DISPLAY_SHARES * max_bytes))

    def _take_cleared(self) -> bool:
        """Whether what has been shown is to go; then it counts as not shown."""
        cleared = [output.take_cleared() for output in self._outputs.values()]
        if not any(cleared):
            return False
        for output in self._outputs.values():
            output.take_back()
        self._shown_lines = self._shown_bytes = 0
        return True

    def _of_first(self, outputs: dict[int, list[Item]]) -> dict[int, list[Item]]:
        """Those of the only source that is shown, if there is one; otherwise all."""
        return outputs if self._first is None else {self._first: outputs[self._first]}

    def _settling(self) -> dict[int, list[Item]]:
        """By source, what can be shown already; of several, a display that may yet be updated cannot."""
        outputs: dict[int, list[Item]] = {source: [] for source in self._sources}
        for source, output in self._outputs.items():
            items = output.fresh()
            may_change = len(self._sources) > 1 and source not in self._ended
            outputs[source] = _before_a_name(items) if may_change else items
        return outputs

    def _whole(self) -> set[int]:
        """The sources that have ended, and of whom all can be shown already."""
        return {source for source in self._ended if source not in self._outputs or not self._outputs[source].goes_on}

    def _within_limits(self, blocks: Sequence[Block]) -> list[Block]:
        """The beginning that fits into half of the limit."""
        lines_left, bytes_left = self._max_lines // 2 - self._shown_lines, self._max_bytes // 2 - self._shown_bytes
        displays_left = STREAMED_DISPLAYS
        kept: list[Block] = []
        for block in blocks:
            for at, item in enumerate(block.items):
                if not _is_update(item):
                    lines_left, bytes_left = lines_left - lines_of(item), bytes_left - size_of(item)
                displays_left -= isinstance(item, Rich)
                if min(lines_left, bytes_left, displays_left) < 0:
                    return [*kept, Block(block.ranks, block.items[:at])] if at else kept
            kept.append(block)
        return kept

    def _hand_out(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            new = [item for item in block.items if not _is_update(item)]
            self._shown_lines += sum(map(lines_of, new))
            self._shown_bytes += sum(map(size_of, new))
            for source in block.ranks:
                self._outputs[source].hand_out(len(block.items))


def _is_update(item: Item) -> bool:
    """Whether it takes the place of something that is shown."""
    return isinstance(item, Rich) and item.update


def _before_a_name(items: list[Item]) -> list[Item]:
    named = (at for at, item in enumerate(items) if isinstance(item, Rich) and item.display_id is not None)
    return items[: next(named, len(items))]
