"""What becomes of an actor and its calls when its engine ends; and how a restarted hub finds the actors that live.

Calls that were in the engine's line may have begun. They fail, unless their retries allow that they are run again on
the actor's next engine; so do, before all others, those that had not been sent. An engine that ended before it had
begun to make the actor does not count as one of its restarts.
"""

from __future__ import annotations

from fibernb.core.acting import NONE_VALUE, end_actor, leave_seat, make, register
from fibernb.core.actors import Actor
from fibernb.core.auxiliary import take_seat
from fibernb.core.board import Board
from fibernb.core.clients import Client
from fibernb.core.endings import cancelled, end_task, fail_dependents, supply, withdraw
from fibernb.core.events import EngineExited
from fibernb.core.holding import entry_of, hold_entry
from fibernb.core.leases import Lease
from fibernb.core.messages import ActorRecord, HoldActor
from fibernb.core.remaking import wait_for_inputs
from fibernb.core.seats import Engine, Seat
from fibernb.core.states import ActorState, TaskState
from fibernb.core.submitting import BEGUN
from fibernb.core.taking import come_back
from fibernb.core.tasks import Task, may_try_again, move_task
from fibernb.errors import WorkerDied
from fibernb.model import Outcome, Result, TaskId


def lose_actor(board: Board, engine: Engine, event: EngineExited) -> None:
    """Decide about an actor, and everything that its engine held."""
    actor = board.actors[engine.actor]
    held = [task for task in engine.line if board.tasks.get(task.id) is task]
    engine.line.clear()
    for task in held:
        move_task(task, TaskState.LOST)
    maker = next((task for task in held if task.id == actor.id), None)
    if actor.dead:
        restarts = False
        actor.exit_code = event.exit_code if actor.exit_code is None else actor.exit_code
    elif maker is None and actor.state is not ActorState.ALIVE:
        restarts = True
    else:
        restarts = _restart(actor)
        if not restarts:
            end_actor(board, actor, _reason(engine, event, _restarts_used(actor)), None, event.exit_code)
    _sort_out(board, actor, held, restarts, _reason(engine, event, BEGUN), engine)
    if restarts and maker is None and actor.id not in board.tasks:
        make(board, actor)


def _reason(engine: Engine, event: EngineExited, consequence: str) -> str:
    """How the engine ended, what follows for the actor, and after that what the engine wrote last."""
    evidence = "; ".join(part for part in (event.evidence, engine.doomed, consequence) if part)
    return str(WorkerDied(engine.rank, engine.node, event.exit_code, event.last_output, evidence))


def _restarts_used(actor: Actor) -> str:
    count = actor.restarts
    return f"all of its max_restarts={count} have been used" if count else "max_restarts is 0"


def _restart(actor: Actor) -> bool:
    """Count one more restart, if there may be one."""
    if not actor.may_restart():
        return False
    actor.restarts += 1
    if actor.state is not ActorState.RESTARTING:
        actor.move(ActorState.RESTARTING)
    return True


def _sort_out(board: Board, actor: Actor, held: list[Task], restarts: bool, why: str, engine: Engine) -> None:
    """What runs again, and what fails."""
    again: list[Task] = []
    for task in held:
        if task.id == actor.id and restarts:
            come_back(board, task)
        elif restarts and not task.cancelling and may_try_again(task):
            task.attempts += not actor.sequential or task is held[0] or task.position <= engine.started
            again.append(task)
        else:
            end_task(board, task, _last_word(board, actor, task, restarts, why))
    for task in again:
        move_task(task, TaskState.WAITING if wait_for_inputs(board, task) else TaskState.QUEUED)
    actor.calls.give_back(again)


def _last_word(board: Board, actor: Actor, task: Task, restarts: bool, why: str) -> Result:
    if task.cancelling and not actor.create.options.is_process:
        return cancelled(board, task)
    reason, exit_code = (why, None) if restarts else (actor.ended, actor.exit_code)
    return Result(task.id, board.errors.actor_died(actor.title, reason, exit_code), Outcome.ERROR)


def keeps_seat(board: Board, seat: Seat) -> bool:
    """Whether the seat of an actor, which has no engine any more, needs another one. If not, it is taken away."""
    actor = board.actors[seat.actor]
    if not actor.dead and seat.node in board.nodes:
        return True
    leave_seat(board, actor)
    board.leaving[actor.id] = None
    return False


# ---- after a restart of the hub --------------------------------------------------------------------------


def adopt(board: Board, engine: Engine, seat: Seat, record: ActorRecord, holds: list[TaskId]) -> None:
    """An engine tells of the actor that lives in it; its client may have told of it before, or may do so later."""
    create = record.create
    actor = board.actors.get(create.actor)
    if actor is None:
        function = board.functions.define(create.function, record.code, create.options.class_name)
        function.users += 1
        actor = register(board, create, function)
        make(board, actor)
    actor.restarts, actor.checkpoint, actor.rank = record.restarts, record.checkpoint, seat.rank
    actor.move(ActorState.STARTING)
    take_seat(board, seat, actor.id, create.options.environment)
    engine.actor = actor.id
    node = board.nodes[engine.node]
    if not create.options.placement:
        actor.lease = Lease(node, node, create.options.resources, lasting=True)
    maker = board.tasks.get(actor.id)
    if maker is not None and actor.id not in holds:
        withdraw(board, maker)
        end_task(board, maker, Result(actor.id, NONE_VALUE))


def hold_actor(board: Board, client: Client, message: HoldActor) -> None:
    """A client holds an actor, and tells in which engine it was."""
    entry = entry_of(board, message.actor)
    hold_entry(client, message.actor, entry)
    if entry.result is not None or message.actor in board.actors or message.engine in board.engines:
        return
    exit_code = board.exit_codes.get(message.engine)  # not known if its node has ended too
    how = "" if exit_code is None else f" with exit code {exit_code}"
    error = board.errors.actor_died("the actor", f"its process ended{how} while there was no hub", exit_code)
    fail_dependents(board, supply(board, Result(message.actor, error, Outcome.ERROR)))


def give_up(board: Board) -> None:
    """Who has not come back by now will not: actors that nobody holds may go, and calls of others fail."""
    for actor in board.actors.values():
        actor.unheld = actor.id not in board.objects.entries
        board.leaving[actor.id] = None
    for id_ in board.placements:
        if id_ not in board.objects.entries:
            board.unheld_placements[id_] = None
    board.early_blocked.clear()
