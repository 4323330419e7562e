"""The errors of many ranks as one: what users see when a cell or a call failed on some of them."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping
from typing import Final

from fibernb.errors import CellTimeout, RemoteTraceback, TaskCancelled, annotate, message_of
from fibernb.model import Rank

MAX_PLACES: Final = 3
"""Where ranks stood that were stopped: no more than this is told."""

_PLACE: Final = re.compile(r'^  File "([^"\n]+)", line (\d+)', re.MULTILINE)


def combined(errors: Mapping[Rank, BaseException], size: int) -> BaseException:
    """One exception for all: itself if they are alike, otherwise a group with one of each kind.

    Each gets a note that names its ranks, unless there is one rank only.

    Parameters
    ----------
    errors : at least one, by rank.
    size : on how many ranks the work ran.
    """
    kinds: dict[tuple[object, ...], list[Rank]] = {}
    for rank, error in errors.items():
        kinds.setdefault(_kind(rank, error), []).append(rank)
    first_ones = [_noted(errors, ranks, size) for ranks in kinds.values()]
    if len(first_ones) == 1:
        return first_ones[0]
    return BaseExceptionGroup(f"{len(errors)} of {size} ranks failed in {len(first_ones)} ways", first_ones)


def _kind(rank: Rank, error: BaseException) -> tuple[object, ...]:
    """What makes two errors alike: type, message (whatever rank it names), and where they were raised."""
    if isinstance(error, TaskCancelled):  # while it ran or before it, in time or not
        return (type(error).__name__,)
    if hasattr(error, "exit_code"):  # the engine of each rank died its own death, but the way is the same
        return (type(error).__name__, error.exit_code)
    return (type(error).__module__, type(error).__qualname__, _message_of_any(rank, error), _place(error))


def _message_of_any(rank: Rank, error: BaseException) -> str:
    """What an error says, without the number of the rank."""
    message = message_of(error)
    named = f"rank {rank}"
    return re.sub(rf"\b{named}\b", "rank", message) if named in message else message


def _place(error: BaseException) -> str:
    """The last line of the remote traceback that names a file and line."""
    cause = error.__cause__
    if not isinstance(cause, RemoteTraceback):
        return "".join(traceback.format_tb(error.__traceback__)[-1:])
    places = [line.strip() for line in cause.text.splitlines() if line.lstrip().startswith(("File ", "Cell In"))]
    return places[-1] if places else ""


def _noted(errors: Mapping[Rank, BaseException], ranks: list[Rank], size: int) -> BaseException:
    error = errors[ranks[0]]
    if size > 1:
        annotate(error, f"on rank{'s' if len(ranks) > 1 else ''} {shorthand(ranks)} of {size}")
    if replaced := replacements("rank", (rank for rank in ranks if is_replaced(errors[rank]))):
        annotate(error, replaced)
    return error


def is_replaced(error: BaseException) -> bool:
    """Whether what failed with this had to be stopped by ending its engine."""
    return isinstance(error, TaskCancelled) and error.engine_replaced


def in_time(timed_out: str, error: BaseException, noun: str, errors: Mapping[int, BaseException]) -> BaseException:
    """The error of a cell, or in its place a `CellTimeout` that says ``timed_out``, if that was what cancelled it."""
    if not timed_out or not isinstance(error, TaskCancelled):
        return error
    timeout = CellTimeout(timed_out)
    for note in stops(noun, errors):
        annotate(timeout, note)
    return timeout


def stops(noun: str, errors: Mapping[int, BaseException]) -> list[str]:
    """What there is to tell of ranks or items that were cancelled: where they stood, and which did not stop."""
    stood: dict[str, list[int]] = {}
    for number, error in errors.items():
        if isinstance(error, TaskCancelled) and (place := _place_in_cells(error)):
            stood.setdefault(place, []).append(number)
    places = "; ".join(_stood(noun, numbers, place) for place, numbers in list(stood.items())[:MAX_PLACES])
    stubborn = replacements(noun, (number for number, error in errors.items() if is_replaced(error)))
    return [note for note in (places, stubborn) if note]


def _stood(noun: str, numbers: list[int], place: str) -> str:
    ending = "s" if len(numbers) > 1 else ""
    return f"{noun}{ending} {shorthand(numbers)} stood at {place}"


def _place_in_cells(error: BaseException) -> str:
    """The innermost line of a cell that a remote traceback has, or of any file if it has none."""
    cause = error.__cause__
    found = _PLACE.findall(cause.text) if isinstance(cause, RemoteTraceback) else []
    in_cells = [place for place in found if place[0].startswith("In[")]
    return "{}, line {}".format(*(in_cells or found)[-1]) if found else ""


def replacements(noun: str, numbers: Iterable[int]) -> str:
    """Says of ranks or items that they did not stop; nothing if there are none."""
    stubborn = list(numbers)
    if not stubborn:
        return ""
    ending = ("s", "have new engines") if len(stubborn) > 1 else ("", "has a new engine")
    return f"{noun}{ending[0]} {shorthand(stubborn)} did not stop and {ending[1]}"


def shorthand(ranks: Iterable[Rank]) -> str:
    """Ranks as people write them: ``0-3, 7``."""
    runs: list[list[Rank]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
