"""How the ranks of a cell end, noted where the others look that wait for them in a collective."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import Final

from fibernb.client.cells import CellHandle
from fibernb.client.refs import ObjectRef, error_of
from fibernb.collectives.fates import Fates
from fibernb.errors import WorkerDied, message_of
from fibernb.model import Outcome

ENDED: Final = "has ended its cell"


def watch(handle: CellHandle, directory: Path | None) -> None:
    """Note the end of every rank of this cell, if there are several, in the cluster's directory."""
    if len(handle.refs) < 2 or directory is None:
        return
    fates = Fates(directory, token=f"{handle.refs[0].id:x}", size=len(handle.refs))
    for position, ref in enumerate(handle.refs):
        ref.add_done_callback(functools.partial(_note, fates, position))


def _note(fates: Fates, position: int, ref: ObjectRef) -> None:
    with contextlib.suppress(OSError):  # the cluster's directory has gone with the cluster, or there is no room in it
        if ref.answer is None or ref.answer.outcome is Outcome.OK:
            fates.note(position, ENDED)
            return
        error = error_of(ref.answer)
        text = message_of(error).partition("\n")[0]
        fate = f"has died: {text}" if isinstance(error, WorkerDied) else f"has failed: {type(error).__name__}: {text}"
        fates.note(position, fate, died=True)  # or its engine was replaced
