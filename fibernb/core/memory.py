"""A node that runs short of memory: one engine goes before the system chooses one.

It is the greediest of those whose work can be done again; if there is none, of those that run tasks at all; then of
actors. The next one only goes when that has not helped. What it ran is retried, as often as its retries allow, and then
fails with the figures.
"""

from __future__ import annotations

from fibernb.core.board import Board
from fibernb.core.cancelling import kill
from fibernb.core.events import MemoryLow
from fibernb.core.nodes import GIGA
from fibernb.core.seats import Engine
from fibernb.core.tasks import may_try_again


def memory_low(board: Board, event: MemoryLow, now: float) -> None:
    """Stop the engine that is to go, unless one is going already."""
    engines = [engine for engine in board.engines.values() if engine.node == event.node]
    if any(engine.short for engine in engines):
        return
    used = {each.engine: each.used_bytes for each in event.engines}
    choice = [engine for engine in engines if engine.id in used and engine.usable and (engine.line or engine.actor)]
    if choice:
        engine = min(choice, key=lambda engine: (_loss(board, engine), -used[engine.id], engine.id))
        engine.short = _figures(event, used[engine.id])
        kill(board, engine, engine.short, now, asked=False)


def _loss(board: Board, engine: Engine) -> int:
    """How bad it is to lose what an engine does: small for what can be done again."""
    actor = board.actors.get(engine.actor)
    if actor is not None:
        return 2 if actor.may_restart() else 3
    return 0 if all(may_try_again(task) for task in engine.line if task.id in board.tasks) else 1


def _figures(event: MemoryLow, used_bytes: int) -> str:
    return (
        f"it was stopped since {event.node} was running out of memory: it used {used_bytes / GIGA:.2f} GB, and "
        f"{event.used_bytes / GIGA:.2f} of {event.limit_bytes / GIGA:.2f} GB were in use; let it use less, ask for "
        "more with memory=, or run fewer at a time"
    )
