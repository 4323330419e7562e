"""Actors: how they are made, called, found, and how they end.

An actor is made by a task of its own, which waits for its inputs and for resources like any other (see `special`), and
belongs to no client: what it comes to is the value of the actor's object. Calls wait until the actor is alive, and go
to its engine many at a time. It ends when it is killed, when it says so, when its restarts are used up, or when
nobody holds it any more and all calls are done.
"""

from __future__ import annotations

from fibernb.core.actors import Actor
from fibernb.core.auxiliary import remove_seat
from fibernb.core.board import Board
from fibernb.core.cancelling import kill
from fibernb.core.clients import Client
from fibernb.core.endings import end_task, fail_dependents, supply
from fibernb.core.feasible import impossible
from fibernb.core.functions import Function
from fibernb.core.holding import entry_of, give, hold_entry, missing
from fibernb.core.messages import ActorExits, ActorFound, CallActor, Checkpoint, CreateActor, FindActor, KillActor
from fibernb.core.objects import named_by
from fibernb.core.seats import Engine
from fibernb.core.sending import send
from fibernb.core.states import ActorState, SeatState, TaskState
from fibernb.core.submitting import answer_at_once, connect, receive, release_group, unknown_function
from fibernb.core.tasks import Group, Task
from fibernb.model import Call, ObjectId, Outcome, Result, TaskOptions

NONE_VALUE = b"\x80\x05N."  # the pickle of None
FIRST_LINE = 16  # calls to send while it is not known how long they take
GONE = "it is not there any more: nobody held it, or it was made by a cluster that has ended"


# ---- making ----------------------------------------------------------------------------------------------


def create_actor(board: Board, client: Client, message: CreateActor) -> None:
    """Make an actor, unless it is there already: by its id, since it was asked for again, or by its name. One that is
    known to have ended before the hub was restarted is not made again.
    """
    known = board.actors.get(message.actor)
    if known is None and _known_end(board, message.actor) is not None:
        hold_entry(client, message.actor, board.objects.entries[message.actor])
        if message.request:
            board.tell_client(client, ActorFound(request=message.request, actor=message.actor))
        return
    if known is None:
        namesake = board.named.get((message.options.namespace, message.options.name))
        if namesake is not None:
            _refuse_name(board, client, message, namesake)
            return
        known = _new_actor(board, client, message)
    if known is not None:
        _hold(board, client, known)
        _answer(board, client, message.request, known)


def _answer(board: Board, client: Client, request: int, actor: Actor) -> None:
    if request:
        board.tell_client(client, ActorFound(request=request, actor=actor.id, about=actor.create.about))


def _refuse_name(board: Board, client: Client, message: CreateActor, namesake: Actor) -> None:
    if message.get_if_exists and message.request:
        _hold(board, client, namesake)
        _answer(board, client, message.request, namesake)
        return
    name = message.options.name
    problem = (
        f"there is an actor named {name!r} already: take that one with get_actor({name!r}) or get_if_exists=True, or "
        f"put this one in its place with replace=True (kill(get_actor({name!r})) ends it), or choose another name"
    )
    if message.request:
        board.tell_client(client, ActorFound(request=message.request, problem=problem))
    else:
        _fail_at_once(board, client, message.actor, board.errors.refused(problem))


def _fail_at_once(board: Board, client: Client, object_id: ObjectId, value: bytes) -> None:
    """What was to be made cannot be: its object is an error."""
    hold_entry(client, object_id, board.objects.entry(object_id))
    fail_dependents(board, supply(board, Result(object_id, value, Outcome.ERROR)))


def _hold(board: Board, client: Client, actor: Actor) -> None:
    hold_entry(client, actor.id, entry_of(board, actor.id))


def _new_actor(board: Board, client: Client, message: CreateActor) -> Actor | None:
    function = board.functions.by_digest.get(message.function)
    if function is None:
        name = message.options.class_name
        _fail_at_once(board, client, message.actor, unknown_function(board, TaskOptions(name=name)))
        return None
    function.users += 1
    actor = register(board, message, board.functions.by_digest[message.function])
    problem = impossible(board, message.options)
    if problem is not None:
        entry_of(board, actor.id)
        end_actor(board, actor, "it cannot be placed", Result(actor.id, problem, Outcome.ERROR))
    else:
        make(board, actor)
    return actor


def register(board: Board, create: CreateActor, function: Function) -> Actor:
    """Enter a new actor into the books. It uses what its constructor's arguments name for as long as it lives."""
    id_ = create.actor

    def wake() -> None:
        board.calling[id_] = None

    actor = board.actors[id_] = Actor(create, function, wake)
    board.objects.watched.add(id_)
    if create.options.name:
        board.named[create.options.namespace, create.options.name] = actor
    for object_id in named_by(creation(actor)):
        entry_of(board, object_id).uses += 1
    for client, message in board.early_calls.pop(id_, ()):
        if board.clients.get(client.id) is client:
            call_actor(board, client, message)
    return actor


def creation(actor: Actor) -> Call:
    """What makes an actor, as a call."""
    create = actor.create
    return Call(actor.id, create.args, create.deps, create.refs)


def make(board: Board, actor: Actor) -> None:
    """Begin the task that makes an actor, or makes it again."""
    options = TaskOptions(name=f"{actor.class_name or 'the actor'}.__init__", max_retries=0)
    key = (board.internal.id, actor.function.digest, None, b"", actor.id)
    group = actor.maker = Group(key, board.internal, actor.function, options, None, actor.id)
    group.live = 1
    call = creation(actor)
    task = board.tasks[actor.id] = Task(actor.id, call, group, TaskState.WAITING)
    group.with_inputs = bool(call.deps)
    connect(board, task)


def take_made(board: Board, now: float) -> None:
    """Tasks that make actors have ended."""
    made, board.made = board.made, {}
    for id_, result in made.items():
        actor = board.actors.get(id_)
        if actor is None or actor.dead:
            continue
        if result.outcome is Outcome.OK:
            come_alive(board, actor)
        else:
            end_actor(board, actor, "its constructor failed", result)
            stop_engine(board, actor, "its actor could not be made", now)


def come_alive(board: Board, actor: Actor) -> None:
    if actor.value is None:
        actor.value = Result(actor.id, NONE_VALUE)
    actor.move(ActorState.ALIVE)
    board.calling[actor.id] = None


# ---- calls -----------------------------------------------------------------------------------------------


def call_actor(board: Board, client: Client, message: CallActor) -> None:
    """Calls of one method. After a restart of the hub they may come before the actor does."""
    actor = board.actors.get(message.actor)
    end = None if actor is not None else _known_end(board, message.actor)
    if actor is None and end is None and board.unsettled:
        board.early_calls.setdefault(message.actor, []).append((client, message))
        return
    group = None
    if actor is not None:
        group = board.group(client, message.function, message.options, message.parent, actor.id)
    if group is None:
        _refuse(board, client, message, end or _no_call(board, actor, message.options))
    else:
        group.live += 1  # it must not be dropped while we are at it
        if actor is not None and actor.dead:
            _refuse(board, client, message, _died(actor))
        else:
            receive(board, group, message.calls, message.begun_on)
        release_group(board, group)


def _known_end(board: Board, object_id: ObjectId) -> bytes | None:
    """The error that stands for an actor which could not be made, or ended before the hub was restarted; else None."""
    entry = board.objects.entries.get(object_id)
    known = entry.result if entry is not None else None
    if known is None or not known.outcome or known == missing(board, object_id):
        return None
    return known.value


def _no_call(board: Board, actor: Actor | None, options: TaskOptions) -> bytes:
    return board.errors.actor_died("the actor", GONE) if actor is None else unknown_function(board, options)


def _refuse(board: Board, client: Client, message: CallActor, value: bytes) -> None:
    for call in message.calls:
        if call.id not in board.answers and call.id not in board.tasks:
            answer_at_once(board, client, call.id, value, message.options, message.actor)


def _died(actor: Actor) -> bytes:
    """The error of calls that an actor will not answer."""
    assert actor.value is not None
    return actor.value.value


def refuse_early_calls(board: Board) -> None:
    """The actors that these calls were for have not come back."""
    early, board.early_calls = board.early_calls, {}
    for calls in early.values():
        for client, message in calls:
            if board.clients.get(client.id) is client:
                call_actor(board, client, message)


def send_calls(board: Board, now: float) -> None:
    """Send calls to actors that have room for some."""
    calling, board.calling = board.calling, {}
    for id_ in calling:
        actor = board.actors.get(id_)
        if actor is not None and actor.calls.count and actor.state is ActorState.ALIVE:
            _send_some(board, actor, now)


def _send_some(board: Board, actor: Actor, now: float) -> None:
    engine = board.seats[actor.rank].engine
    if engine is None or not engine.usable:
        return
    limit = _line_limit(board, actor)
    size_bytes = board.settings.max_batch_bytes

    def cost(task: Task) -> int:
        call = task.call
        return len(call.args) + board.objects.size_bytes(call.deps) if call.deps else len(call.args)

    while actor.calls.count and (room := limit - len(engine.line)) > 0:
        tasks = actor.calls.take(room, size_bytes, cost)
        if not tasks:
            return
        send(board, engine, tasks, now)


def _line_limit(board: Board, actor: Actor) -> int:
    """How many calls the engine of an actor may have. One that runs several at a time sorts them out itself."""
    settings = board.settings
    if not actor.sequential:
        options = actor.create.options
        return settings.max_line_calls + options.max_concurrency + sum(options.groups.values())
    if actor.run_s is None:
        return FIRST_LINE
    if actor.run_s * settings.max_line_calls <= settings.line_s:
        return settings.max_line_calls
    return 2 + int(settings.line_s / actor.run_s)


# ---- what the engine says --------------------------------------------------------------------------------


def take_checkpoint(board: Board, engine: Engine, message: Checkpoint) -> None:
    actor = board.actors.get(engine.actor)
    if actor is not None:
        actor.checkpoint = message.state


def take_exits(board: Board, engine: Engine, message: ActorExits, now: float) -> None:
    """The actor has ended itself. Its engine goes when its results have arrived."""
    actor = board.actors.get(engine.actor)
    if actor is not None and not actor.dead:
        end_actor(board, actor, message.reason, None)
        _drain_seat(board, actor, now)


# ---- looking for, and ending -----------------------------------------------------------------------------


def find_actor(board: Board, client: Client, message: FindActor) -> None:
    actor = board.named.get((message.namespace, message.name))
    if actor is None:
        where = f" in the namespace {message.namespace!r}" if message.namespace else ""
        problem = f"there is no actor named {message.name!r}{where}: it was not made under that name, or has ended"
        board.tell_client(client, ActorFound(request=message.request, problem=problem))
    else:
        _hold(board, client, actor)
        _answer(board, client, message.request, actor)


def kill_actor(board: Board, message: KillActor, now: float) -> None:
    """End an actor; or only its engine, as if that had died."""
    actor = board.actors.get(message.actor)
    if actor is None or actor.dead:
        return
    if message.no_restart:
        end_actor(board, actor, "it was killed", None)
    stop_engine(board, actor, "its actor was killed", now)


def stop_engine(board: Board, actor: Actor, reason: str, now: float) -> None:
    """End the process of an actor, if it has one, at once."""
    engine = board.seats[actor.rank].engine if actor.rank else None
    if engine is not None:
        kill(board, engine, reason, now)
    elif actor.rank and actor.dead:
        leave_seat(board, actor)


def leave_seat(board: Board, actor: Actor) -> None:
    """An actor needs its seat, which has no engine, and its resources no more."""
    remove_seat(board, board.seats[actor.rank])
    actor.rank = 0
    give_back_lease(board, actor)


def give_back_lease(board: Board, actor: Actor) -> None:
    if actor.lease is not None:
        actor.lease.end()
        actor.lease = None
        board.roomier = True


def end_actor(board: Board, actor: Actor, reason: str, result: Result | None, exit_code: int | None = None) -> None:
    """An actor is dead: nothing is sent to it any more. What its engine has is decided when that has ended.

    ``result``: why it could not be made. ``exit_code``: of its process, if that has ended.
    """
    actor.move(ActorState.DEAD)
    actor.ended, actor.exit_code = reason, exit_code
    last_word = result or Result(actor.id, board.errors.actor_died(actor.title, reason, exit_code), Outcome.ERROR)
    if actor.value is None:
        fail_dependents(board, supply(board, last_word))
    actor.value = last_word
    _tell_holders(board, last_word)
    board.leaving[actor.id] = None
    key = (actor.create.options.namespace, actor.create.options.name)
    if board.named.get(key) is actor:
        del board.named[key]
    maker = board.tasks.get(actor.id)
    if maker is not None and maker.state <= TaskState.QUEUED:
        end_task(board, maker, Result(actor.id, actor.value.value, Outcome.ERROR))
    for task in actor.calls.tasks():
        if task.id in board.tasks:
            end_task(board, task, Result(task.id, _died(actor), Outcome.ERROR))
    for object_id in named_by(creation(actor)):
        entry = board.objects.entries[object_id]
        entry.uses -= 1
        board.objects.let_go(object_id)


def _tell_holders(board: Board, last_word: Result) -> None:
    """Who holds an actor hears of its end, so that a hub after this one is not asked to make it again."""
    for client in board.clients.values():
        if last_word.id in client.objects:
            give(board, client.id, last_word)


# ---- when nobody holds it --------------------------------------------------------------------------------


def look_at_dropped(board: Board) -> None:
    """Objects that were watched are held and used by no one any more."""
    dropped, board.objects.dropped = board.objects.dropped, []
    for id_ in dropped:
        if id_ in board.actors:
            board.actors[id_].unheld = True
            board.leaving[id_] = None
    board.unheld_placements.update((id_, None) for id_ in dropped if id_ in board.placements)


def let_leave(board: Board, now: float) -> None:
    """End the actors that nobody needs any more."""
    leaving, board.leaving = board.leaving, {}
    for id_ in leaving:
        actor = board.actors.get(id_)
        if actor is not None and actor.unheld and not actor.groups:
            _let_go(board, actor, now)


def _let_go(board: Board, actor: Actor, now: float) -> None:
    """Nobody holds an actor, and it has nothing to do. A detached one lives on."""
    if actor.id in board.objects.entries:
        board.objects.watched.add(actor.id)
        actor.unheld = False
        return
    if actor.detached and not actor.dead:
        return
    if not actor.dead:
        retire(board, actor, "nobody held it any more", now)
    if not actor.rank:
        forget(board, actor)


def retire(board: Board, actor: Actor, reason: str, now: float) -> None:
    """End an actor that is not needed: in good order if it was made already, or after a grace if it is a process."""
    alive = actor.state is ActorState.ALIVE
    end_actor(board, actor, reason, None)
    if alive and actor.create.options.is_process:
        board.timers.set(("orphan", board.engine_of(actor.rank).id), now + board.settings.orphan_grace_s)
    elif alive:
        _drain_seat(board, actor, now)
    else:
        stop_engine(board, actor, "nobody holds its actor any more", now)


def _drain_seat(board: Board, actor: Actor, now: float) -> None:
    """Let an actor's engine end in good order."""
    seat = board.seats[actor.rank]
    if seat.state in (SeatState.IDLE, SeatState.BUSY):
        board.move_seat(seat, SeatState.DRAINING, now)
        board.draining[seat.rank] = None


def forget(board: Board, actor: Actor) -> None:
    """The last of an actor: it is dead, has no engine, and nobody can ask for it."""
    del board.actors[actor.id]
    board.history.bury(actor)
    board.objects.watched.discard(actor.id)
    board.functions.drop(actor.function.digest)
