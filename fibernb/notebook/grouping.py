"""What many ranks wrote, brought together: equal output once, different output in rank order. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from fibernb.model import Rank

Mode: TypeAlias = Literal["auto", "rank", "first", "none"]
MODES: Final[tuple[Mode, ...]] = ("auto", "rank", "first", "none")


class Line(NamedTuple):
    """One line of text, without its end."""

    stream: str  # "stdout" or "stderr"
    text: str


class Rich(NamedTuple):
    """One display, as JSON of Jupyter's ``data`` and ``metadata``; ``display_id`` is the engine's own name for it.

    ``update``: it takes the place of what that rank displayed under this name in an earlier cell. ``size_bytes``: how
    much of a cell's limit it takes.
    """

    content: bytes
    display_id: str | None = None
    update: bool = False
    size_bytes: int = 0


class LeftOut(NamedTuple):
    """Lines and displays that were not kept. Two of them are equal only if what they stand for was."""

    lines: int
    size_bytes: int
    digest: bytes = b""
    displays: int = 0


Item: TypeAlias = Line | Rich | LeftOut


class Block(NamedTuple):
    """Successive items that these ranks have in common, in the order in which each of them wrote them."""

    ranks: tuple[Rank, ...]
    items: tuple[Item, ...]


def format_ranks(ranks: Iterable[Rank]) -> str:
    """Ranks as people write them: ``0-3,5``; those of engines beside the seats, which are below 0: ``extra 2``."""
    known = set(ranks)
    seats = _as_runs(rank for rank in known if rank >= 0)
    beside = _as_runs(-rank for rank in known if rank < 0)
    return ", ".join(filter(None, [seats, beside and f"extra {beside}"]))


def _as_runs(numbers: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for rank in sorted(numbers):
        if runs and runs[-1][-1] == rank - 1:
            runs[-1] = [runs[-1][0], rank]
        else:
            runs.append([rank])
    return ",".join("-".join(str(rank) for rank in run) for run in runs)


def arranged(outputs: Mapping[Rank, Sequence[Item]], mode: Mode) -> list[Block]:
    """The output of the ranks as it is to be shown, when all of them have ended."""
    return settled(outputs, outputs, mode)


def merged(outputs: Mapping[Rank, Sequence[Item]]) -> list[Block]:
    """Common beginnings once; where ranks part, each group on its own, the one with the lowest rank first.

    Reading only the blocks of one rank gives exactly what that rank wrote.
    """
    return _merged(outputs, outputs)


def settled(outputs: Mapping[Rank, Sequence[Item]], ended: Container[Rank], mode: Mode) -> list[Block]:
    """The beginning of what is to be shown that stays as it is, whatever those write that have not ended."""
    ranks = [rank for rank in sorted(outputs) if outputs[rank] or rank not in ended]
    match mode:
        case "auto":
            return _merged(outputs, ended)
        case "rank":
            return [_whole(outputs, rank) for rank in _in_turn(ranks, ended) if outputs[rank]]
        case "first":
            return [_whole(outputs, rank) for rank in ranks[:1] if outputs[rank]]
        case "none":
            return []


def _in_turn(ranks: Sequence[Rank], ended: Container[Rank]) -> Sequence[Rank]:
    """Up to the first one that has not ended."""
    going_on = next((at for at, rank in enumerate(ranks) if rank not in ended), len(ranks))
    return ranks[: going_on + 1]


def _whole(outputs: Mapping[Rank, Sequence[Item]], rank: Rank) -> Block:
    return Block((rank,), tuple(outputs[rank]))


def _merged(outputs: Mapping[Rank, Sequence[Item]], ended: Container[Rank]) -> list[Block]:
    """Until it comes to a place where some rank's next item decides, and is not known."""
    blocks: list[Block] = []
    pending = [(tuple(rank for rank in sorted(outputs) if outputs[rank] or rank not in ended), 0)]
    while pending:
        ranks, start = pending.pop()
        end = _end_of_common_part(outputs, ranks, start)
        if end > start:
            blocks.append(Block(ranks, tuple(outputs[ranks[0]][start:end])))
        if any(len(outputs[rank]) == end and rank not in ended for rank in ranks):
            break
        branches: dict[Item, list[Rank]] = {}
        for rank in ranks:
            if end < len(outputs[rank]):
                branches.setdefault(outputs[rank][end], []).append(rank)
        pending.extend((tuple(branch), end) for branch in reversed(branches.values()))
    return blocks


def _end_of_common_part(outputs: Mapping[Rank, Sequence[Item]], ranks: tuple[Rank, ...], start: int) -> int:
    if not ranks:
        return start
    first = outputs[ranks[0]]
    end = min(len(outputs[rank]) for rank in ranks)
    for rank in ranks[1:]:
        other = outputs[rank]
        if other[start:end] != first[start:end]:
            end = next(at for at in range(start, end) if other[at] != first[at])
    return end
