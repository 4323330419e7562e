import pytest

from fibernb.core.messages import Autoscale, CreateActor, CreateGroup, Exit, Recall, Remember, Scale, SeatsChanged
from fibernb.core.settings import CoreSettings
from fibernb.core.states import SeatState
from fibernb.model import ActorOptions, Outcome, Rank, Resources, TaskOptions
from tests.core.bench import ANNA, Bench, F, task
from tests.core.invariants import board_of


def states(bench: Bench) -> dict[Rank, SeatState]:
    return {rank: seat.state for rank, seat in sorted(board_of(bench.scheduler).seats.items())}


def exits(bench: Bench) -> list[int]:
    return [engine for engine, _ in bench.sent(Exit)]


# ---- by hand --------------------------------------------------------------------------------------------


def test_scaling_twice_is_scaling_once() -> None:
    bench = Bench(seats=3)
    bench.say(Scale(seats=3))
    assert bench.starts() == []
    assert exits(bench) == []


def test_the_highest_ranks_leave_and_idle_ones_at_once() -> None:
    bench = Bench(seats=4)
    bench.pin(1, [2])
    bench.say(Scale(seats=1))
    assert exits(bench) == [4, 2]
    assert states(bench)[2] is SeatState.DRAINING
    bench.exit(4, 0)
    bench.exit(2, 0)
    bench.done(3, task(1))
    assert bench.results() == {task(1): (Outcome.OK, b"value")}
    assert exits(bench) == [], "it keeps the result until that has arrived"
    bench.acknowledge(1)
    assert exits(bench) == [3]
    bench.exit(3, 0)
    assert states(bench) == {0: SeatState.IDLE}
    assert board_of(bench.scheduler).seats[0].deaths == 0


def test_a_draining_seat_gives_back_what_it_has_not_begun() -> None:
    bench = Bench(seats=1)
    bench.learn(1e-3)
    bench.submit(1, 2, 3)
    bench.say(Scale(seats=0))
    assert bench.sent(Recall) == [(1, Recall(position=2, until=4))]
    bench.recalled(1, 2, 4)
    bench.done(1, task(1))
    bench.acknowledge(9)
    assert exits(bench) == [1]
    assert bench.status().queued == 2


def test_an_engine_does_not_wait_for_ever_for_its_results_to_arrive() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(Scale(seats=0))
    bench.done(1, task(1))
    bench.wait(59.0)
    assert exits(bench) == []
    bench.wait(1.0)
    assert exits(bench) == [1]


def test_a_draining_seat_runs_what_is_pinned_to_it() -> None:
    bench = Bench(seats=1)
    bench.pin(1, [0])
    bench.pin(2, [0])
    bench.say(Scale(seats=0))
    bench.done(1, task(1))
    assert bench.calls() == {1: [task(2)]}
    bench.done(1, task(2))
    bench.acknowledge(9)
    assert exits(bench) == [1]


def test_draining_is_called_off() -> None:
    bench = Bench(seats=2)
    bench.pin(1, [1])
    bench.say(Scale(seats=0))
    bench.say(Scale(seats=2))
    assert states(bench) == {0: SeatState.LOST, 1: SeatState.BUSY}
    bench.done(2, task(1))
    assert states(bench)[1] is SeatState.IDLE


def test_draining_is_called_off_while_inputs_are_missing() -> None:
    bench = Bench(seats=2)
    bench.submit(1)
    bench.pin(2, [1], deps=[task(1)])
    bench.say(Scale(seats=1))
    assert states(bench)[1] is SeatState.DRAINING
    bench.say(Scale(seats=2))
    assert states(bench)[1] is SeatState.IDLE
    bench.done(1, task(1))
    assert bench.calls() == {2: [task(2)]}


def test_an_engine_that_dies_while_it_drains_is_not_replaced() -> None:
    bench = Bench(seats=2)
    bench.pin(1, [1])
    bench.say(Scale(seats=1))
    bench.exit(2)
    assert states(bench) == {0: SeatState.IDLE}
    bench.wait(60.0)
    assert bench.starts() == []


@pytest.mark.parametrize(("limit", "why"), [("", ""), ("open files", ", because of open files")])
def test_the_cap_is_kept_and_told(limit: str, why: str) -> None:
    bench = Bench(seats=0, settings=CoreSettings(max_seats=2, limit=limit))
    bench.wait(1.0)
    bench.say(Scale(seats=5))
    problem = f"5 seats were asked for, and no more than 2 are allowed{why}"
    assert bench.told(ANNA, SeatsChanged)[-1].problem == problem
    assert bench.status().seats == 2
    bench.say(Scale(seats=2))
    assert bench.status().problem == ""


def test_less_than_nothing_is_nothing() -> None:
    bench = Bench(seats=1)
    bench.say(Scale(seats=-3))
    assert bench.status().seats == 0


# ---- by itself ------------------------------------------------------------------------------------------


def autoscaled(minimum: int = 0, maximum: int = 8, seats: int = 0) -> Bench:
    bench = Bench(seats=seats)
    bench.say(Autoscale(minimum=minimum, maximum=maximum, idle_s=10.0))
    return bench


def test_seats_are_brought_between_the_bounds() -> None:
    assert autoscaled(minimum=2).status().seats == 2
    bench = autoscaled(minimum=0, maximum=3, seats=5)
    assert bench.status().seats == 3
    assert (bench.status().minimum, bench.status().maximum) == (0, 3)
    assert autoscaled(minimum=9, maximum=3).status().seats == 3


def test_turned_off_it_keeps_what_there_is() -> None:
    bench = autoscaled(minimum=2)
    bench.say(Autoscale())
    bench.submit(*range(5))
    assert bench.status().seats == 2
    assert bench.status().maximum is None


def test_seats_follow_the_queue_at_once_within_the_bounds() -> None:
    bench = autoscaled()
    bench.submit(1, 2, 3)
    assert bench.starts() == [0, 1, 2]
    bench.submit(*range(10, 50))
    assert bench.starts() == [], "not at every message"
    bench.wait(0.1)
    assert bench.starts() == [3, 4, 5, 6, 7]
    bench.wait(0.1)
    assert bench.starts() == []


def test_little_work_does_not_need_many_seats() -> None:
    bench = autoscaled(minimum=1)
    bench.seat_all()
    bench.learn(0.01)
    bench.pin(5000, [0])
    bench.wait(1.0)
    bench.submit(*range(150))
    assert bench.status().seats == 3, "one busy, and two for 1.5 s of work"


def test_long_calls_need_a_seat_each() -> None:
    bench = autoscaled(minimum=1)
    bench.seat_all()
    bench.learn(5.0)
    bench.wait(1.0)
    bench.submit(1, 2, 3)
    assert bench.status().seats == 3


def test_tasks_of_several_cpus_count_as_several() -> None:
    bench = autoscaled(minimum=1)
    bench.submit(1, options=TaskOptions(resources=Resources(milli_cpus=2500)))
    assert bench.status().seats == 3


def test_idle_seats_go_from_the_highest_rank() -> None:
    bench = autoscaled(minimum=1)
    bench.seat_all()
    bench.submit(1, 2, 3, 4)
    bench.seat_all()
    assert bench.calls() == {2: [task(2)], 3: [task(3)], 4: [task(4)]}
    bench.done(4, task(4))
    bench.wait(5.0)
    bench.done(2, task(2))
    bench.acknowledge(2)
    bench.wait(5.0)
    assert exits(bench) == [4]
    bench.exit(4, 0)
    bench.wait(60.0)
    assert exits(bench) == [], "rank 2 is busy"
    bench.done(3, task(3))
    bench.done(1, task(1))
    bench.acknowledge(4)
    bench.wait(10.0)
    assert exits(bench) == [3, 2]
    bench.wait(60.0)
    assert bench.status().seats == 1


def test_seats_with_pinned_work_stay() -> None:
    bench = autoscaled(minimum=0, maximum=2, seats=2)
    bench.submit(1)
    bench.pin(2, [1], deps=[task(1)])
    bench.wait(60.0)
    assert exits(bench) == []


def test_seats_that_cannot_be_filled_go_too() -> None:
    bench = autoscaled(minimum=0, maximum=2, seats=1)
    bench.exit(1)
    board_of(bench.scheduler).hold_starts = True
    bench.wait(5.0)
    bench.wait(6.0)
    assert bench.status().seats == 0


def test_scaling_by_hand_turns_it_off() -> None:
    bench = autoscaled()
    bench.say(Scale(seats=1))
    assert bench.status().maximum is None
    bench.say(Remember(keys=("a",), function=F, args=[b""]))
    bench.submit(1, 2)
    bench.wait(1.0)
    assert bench.status().seats == 1


# ---- what runs beside the seats --------------------------------------------------------------------------


def test_autoscaling_counts_actors_and_groups_that_ask_for_cpus() -> None:
    bench = Bench(seats=0)
    bench.say(Autoscale(maximum=8))
    for number, cpus in ((90, 2000), (91, 0)):
        options = ActorOptions(resources=Resources(milli_cpus=cpus))
        bench.say(CreateActor(actor=task(number), function=F, args=b"", options=options))
    assert board_of(bench.scheduler).scaling.seats == 2
    bench.seat_all()
    bench.say(CreateGroup(group=task(80), bundles=[Resources(), Resources(milli_cpus=1500)]))
    bench.wait(0.2)
    assert board_of(bench.scheduler).scaling.seats == 5
    bench.seat_all()
    assert board_of(bench.scheduler).placements[task(80)].placed()
    bench.wait(100.0)
    bench.wait(100.0)
    assert board_of(bench.scheduler).scaling.seats == 5, "they need the seats to stay empty"
    bench.submit(1, options=TaskOptions(placement=task(80)))
    bench.submit(2, options=TaskOptions(placement=task(80)))
    bench.wait(0.2)
    assert board_of(bench.scheduler).scaling.seats == 5, "the group has got its cpus before"


def test_a_worn_engine_goes_though_its_seat_is_wanted() -> None:
    bench = Bench(seats=2)
    bench.submit(1, options=TaskOptions(max_calls=1))
    bench.done(1, task(1))
    bench.say(Scale(seats=2))
    assert board_of(bench.scheduler).seats[0].state is SeatState.DRAINING
    bench.acknowledge(9)
    assert exits(bench) == [1]
