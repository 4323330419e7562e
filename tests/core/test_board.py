import pytest

from fibernb.core.board import ENDS_KEPT, Board, Orphan
from fibernb.core.clients import Client
from fibernb.core.commands import StartEngine, TellClient, TellEngine
from fibernb.core.events import EngineExited, StartFailed
from fibernb.core.functions import Function
from fibernb.core.messages import Forget, HubStops, Release
from fibernb.core.nodes import Node
from fibernb.core.seats import Engine, Seat
from fibernb.core.settings import CoreSettings
from fibernb.core.states import SeatState
from fibernb.model import DEFAULT_OPTIONS, Resources, Result, TaskOptions
from tests.core.bench import Bench, PlainErrors, of, task
from tests.core.invariants import board_of
from tests.core.test_acting import A, call, make


def board() -> Board:
    made = Board(CoreSettings(), PlainErrors())
    made.functions.define(b"f", b"code", "f")
    made.nodes["n"] = Node("n", None, Resources(milli_cpus=0))
    return made


def seated(made: Board, node: str = "n") -> Seat:
    seat = made.seats[0] = Seat(0, 1.0)
    seat.engine = made.engines[4] = Engine(4, 0, node)
    made.move_seat(seat, SeatState.STARTING, 1.0)
    return seat


def test_a_group_is_made_once() -> None:
    made = board()
    client = Client(5, 60.0, None)
    group = made.group(client, b"f", DEFAULT_OPTIONS, None)
    assert group is not None
    assert made.group(client, b"f", DEFAULT_OPTIONS, None) is group
    assert made.group(client, b"f", DEFAULT_OPTIONS, 77) is not group
    assert made.group(Client(6, 60.0, None), b"f", DEFAULT_OPTIONS, None) is not group
    assert made.group(client, b"unknown", DEFAULT_OPTIONS, None) is None


def test_a_group_without_calls_is_taken_up_again_by_the_next_call_of_its_kind() -> None:
    made = board()
    client = Client(5, 60.0, None)
    group = made.group(client, b"f", DEFAULT_OPTIONS, None)
    assert group is not None
    group.call_bytes = 1000
    made.drop_group(group)
    assert not made.groups
    assert made.group(client, b"f", DEFAULT_OPTIONS, 77) is not group
    assert made.group(client, b"f", DEFAULT_OPTIONS, None) is group
    assert made.groups[group.key] is group
    assert group.call_bytes == 1


@pytest.mark.parametrize("what", ["client", "function", "tied", "listed"])
def test_a_group_is_not_taken_up_again_when_something_is_left_of_it(what: str) -> None:
    made = board()
    client = Client(5, 60.0, None)
    group = made.group(client, b"f", DEFAULT_OPTIONS, None)
    assert group is not None
    group.tied, group.listed = what == "tied", what == "listed"
    made.drop_group(group)
    if what == "function":
        made.functions.by_digest[b"f"] = Function(b"f", b"code", "f")
    again = made.group(Client(5, 60.0, None) if what == "client" else client, b"f", DEFAULT_OPTIONS, None)
    assert again is not None
    assert again is not group


def test_dropping_groups_keeps_the_book_of_children() -> None:
    made = board()
    groups = [made.group(Client(id_, 60.0, None), b"f", DEFAULT_OPTIONS, 77) for id_ in (5, 6)]
    for left, group in ((1, groups[0]), (0, groups[1])):
        assert group is not None
        made.drop_group(group)
        assert len(made.children.get(77, ())) == left
        made.drop_group(group)
    orphaned = made.group(Client(5, 60.0, None), b"f", DEFAULT_OPTIONS, 77)
    assert orphaned is not None
    orphaned.parent = None
    made.drop_group(orphaned)
    made.children.clear()
    assert not made.groups
    assert not made.children


def test_idle_seats_are_counted_on_their_nodes() -> None:
    made = board()
    seat = seated(made)
    made.seats_changed = False
    made.move_seat(seat, SeatState.IDLE, 2.0)
    assert made.seats_changed
    assert (made.nodes["n"].idle, made.idle.lowest()) == (1, 0)
    made.seats_changed = False
    made.move_seat(seat, SeatState.BUSY, 3.0)
    assert not made.seats_changed, "being busy is nothing to tell"
    assert (made.nodes["n"].idle, made.idle.lowest()) == (0, None)
    assert made.engine_of(0).id == 4


def test_a_node_that_is_gone_counts_nothing() -> None:
    made = board()
    seat = seated(made, node="gone")
    made.move_seat(seat, SeatState.IDLE, 2.0)
    assert made.nodes["n"].idle == 0


def test_engines_hear_what_they_may_forget() -> None:
    made = board()
    engine = made.engines[4] = Engine(4, 0, "n")
    other = Engine(5, 1, "n")
    for each in (engine, other):
        receipt = each.receipts.add(1)
        receipt.holders = 2
        before = dict(made.forgetful)
        made.settle(receipt)
        assert made.forgetful == before
        made.settle(receipt)
    assert made.forgetful == {4: engine}, "the other one is gone"
    made.tell_to_forget()
    assert made.commands == [TellEngine(engine=4, message=Forget(forget=1))]
    assert engine.receipts.told == 1
    assert made.forgetful == {}


def test_special_tasks_have_a_queue_of_their_own() -> None:
    made = board()
    client = Client(5, 60.0, None)
    plain = made.group(client, b"f", DEFAULT_OPTIONS, None)
    special = made.group(client, b"f", TaskOptions(resources=Resources(milli_gpus=1)), None)
    assert plain is not None
    assert special is not None
    assert made.queue_of(plain) is made.plain
    assert made.queue_of(special) is made.special


def test_what_is_told_becomes_commands() -> None:
    made = board()
    client = Client(5, 60.0, None)
    made.tell_client(client, HubStops(reason="over"))
    assert made.commands == [TellClient(client=5, message=HubStops(reason="over"))]


def test_an_orphan_remembers_who_told() -> None:
    receipt = Engine(4, 0, "n").receipts.add(1)
    orphan = Orphan(Result(7, b""), receipt)
    assert (orphan.result.id, orphan.receipt) == (7, receipt)


def test_users_do_not_live_in_engines() -> None:
    made = board()
    made.clients = {5: Client(5, 60.0, None), 6: Client(6, 60.0, 4)}
    assert [client.id for client in made.users()] == [5]


def test_seats_beside_the_declared_ones_stand_in_pools() -> None:
    bench = Bench(seats=1)
    board = board_of(bench.scheduler)
    bench.submit(1, options=TaskOptions(resources=Resources(milli_cpus=0)))
    [start] = of(bench.commands, StartEngine)
    pool = board.pools["local", ""]
    assert (pool.starting, list(pool.idle)) == ({-2}, [])
    bench.handle(StartFailed(engines=[start.engine], reason="no memory"))
    assert pool.starting == {-2}
    bench.wait(0.2)
    bench.seat_all()
    [engine] = bench.calls()
    assert (pool.starting, list(pool.idle)) == (set(), [])
    bench.done(engine, task(1))
    assert list(pool.idle) == [-2]
    bench.exit(engine)
    assert list(pool.idle) == []


def test_an_actor_knows_the_groups_of_its_calls() -> None:
    bench = Bench(seats=1)
    engine = make(bench)
    board = board_of(bench.scheduler)
    call(bench, 1)
    [group] = board.actors[A].groups
    assert board.queue_of(group) is board.actors[A].calls
    bench.say(Release(objects=[A]))
    bench.done(engine, task(1))
    assert not board.actors[A].groups
    assert board.actors[A].dead


def test_a_group_whose_actor_has_been_forgotten() -> None:
    bench = Bench(seats=1)
    make(bench)
    board = board_of(bench.scheduler)
    call(bench, 1)
    [group] = board.actors[A].groups
    actor = board.actors.pop(A)
    board.drop_group(group)
    assert group in actor.groups


def test_calls_of_a_function_that_is_not_known_have_no_group() -> None:
    made = board()
    assert made.group(made.internal, b"?", DEFAULT_OPTIONS, None) is None


def test_a_client_that_comes_back_takes_over_the_groups_of_the_one_that_ended() -> None:
    made = board()
    function = made.functions.define(b"f", b"code", "f")
    group = made.group(Client(5, 1.0, None), function.digest, DEFAULT_OPTIONS, None)
    later = Client(5, 1.0, None)
    assert made.group(later, function.digest, DEFAULT_OPTIONS, None) is group
    assert group is not None
    assert group.client is later


def test_the_last_ends_of_engines_are_kept() -> None:
    made = board()
    for number in range(1, ENDS_KEPT + 3):
        made.note_end(Engine(number, 0, "n"), EngineExited(engine=number, exit_code=number))
    assert len(made.ended) == ENDS_KEPT
    assert next(iter(made.ended)) == 3
