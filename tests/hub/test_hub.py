"""The driver between a scripted scheduler and peers in memory: it passes on, carries out, and survives."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator

import msgspec
import pytest

from fibernb.core.commands import DropClient, KillEngine, ShutDown, SignalEngine, StartEngine, TellClient, TellEngine
from fibernb.core.events import (
    ClientAttached,
    ClientGone,
    EngineAttached,
    EngineExited,
    EngineUnreachable,
    LiveEngine,
    NodeUp,
    RecoverFrom,
    StartFailed,
)
from fibernb.core.messages import (
    ActorRecord,
    CreateActor,
    Done,
    Exit,
    HubStops,
    Recalled,
    Run,
    Scale,
    SeatsChanged,
    Status,
    StatusRequest,
)
from fibernb.hub.engines import PATIENCE_S
from fibernb.hub.node import FIRST_DELAY_S, RECOVERY_PATIENCE_S
from fibernb.model import Resources
from fibernb.version import VERSION
from fibernb.wire import codec
from fibernb.wire.handshake import (
    EndNode,
    EndProcesses,
    Fork,
    ForkFailed,
    ProcessExited,
    Refused,
    Seat,
    SignalProcess,
    Welcome,
)
from tests.hub.fakes import Peer, Room

WELCOME = Welcome(cluster="alpha", version=VERSION, hub_pid=os.getpid(), max_seats=8, limit="the test allows 8")
NODE_UP = NodeUp(node="here", capacity=Resources(milli_cpus=0, milli_gpus=2000))


@pytest.fixture
def room() -> Iterator[Room]:
    made = Room()
    yield made
    made.process.end = made.process.end or "ended by the test"
    made.hub.end(0.0)


@pytest.fixture
def begun(room: Room) -> Room:
    """After `NodeUp`."""
    room.hub.begin()
    assert room.heard() == [NODE_UP]
    return room


@pytest.fixture
def seated(begun: Room) -> Room:
    """With a node that has forked engine 1 on rank 0."""
    node = begun.node()
    assert node.receive() == WELCOME
    begun.order(StartEngine(engine=1, rank=0, node="here"))
    assert node.receive() == Fork(seats=[Seat(engine=1, rank=0)])
    return begun


def node_of(room: Room) -> Peer:
    return room.nodes[-1]


def attached(room: Room, engine: int = 1) -> tuple[Peer, Peer]:
    """Both links of an engine, welcomed."""
    control, data = room.control(engine), room.data(engine)
    assert control.receive() == WELCOME
    assert data.receive() == WELCOME
    assert room.heard() == [EngineAttached(engine=engine, rank=0, pid=500 + engine)]
    return control, data


def test_an_engine_is_forked_into_its_environment(begun: Room) -> None:
    node = begun.node()
    assert node.receive() == WELCOME
    begun.order(StartEngine(engine=3, rank=-2, node="here", environment='{"env_vars":{}}'))
    assert node.receive() == Fork(seats=[Seat(engine=3, rank=-2, environment='{"env_vars":{}}')])


def test_an_engine_tells_which_actor_lives_in_it(seated: Room) -> None:
    record = ActorRecord(create=CreateActor(actor=5, function=b"f", args=b"a"), code=b"c", restarts=2)
    seated.control(1)
    seated.data(1, actor=record)
    assert seated.heard() == [EngineAttached(engine=1, rank=0, pid=501, actor=record)]


# ---- clients -------------------------------------------------------------------------------------------


def test_a_client_is_welcomed_heard_and_told(begun: Room) -> None:
    client = begun.client()
    assert client.receive() == WELCOME
    client.send(Scale(seats=3))
    assert begun.heard() == [ClientAttached(client=7, lease_s=30.0), (7, Scale(seats=3))]
    begun.order(TellClient(client=7, message=SeatsChanged(seats=3, ready=0, starting=3)))
    assert client.receive() == SeatsChanged(seats=3, ready=0, starting=3)


def test_a_client_that_vanishes_is_reported_and_told_nothing(begun: Room) -> None:
    client = begun.client()
    begun.heard()
    client.close()
    assert begun.heard() == [ClientGone(client=7)]
    begun.order(TellClient(client=7, message=HubStops(reason="")))


def test_a_client_that_comes_back_takes_the_place_of_its_old_link(begun: Room) -> None:
    old, new = begun.client(), begun.client(resumes=True)
    assert begun.heard() == [
        ClientAttached(client=7, lease_s=30.0),
        ClientAttached(client=7, lease_s=30.0, resumes=True),
    ]
    assert old.is_dropped()
    new.send(Scale(seats=1))
    begun.turn()
    assert begun.heard() == [(7, Scale(seats=1))]


def test_a_client_number_is_taken_until_its_client_is_dropped(begun: Room) -> None:
    begun.client()
    other = begun.client(instance="b")
    refused = other.receive()
    assert refused.kind == "taken"
    assert other.is_dropped()
    begun.order(DropClient(client=7))
    assert begun.client(instance="b").receive() == WELCOME


def test_a_dropped_client_is_not_reported_as_gone(begun: Room) -> None:
    client = begun.client()
    begun.heard()
    begun.order(DropClient(client=7), DropClient(client=7), DropClient(client=8))
    assert client.is_dropped()
    begun.turn()
    assert begun.heard() == []


def test_a_client_may_live_in_an_engine(seated: Room) -> None:
    attached(seated)
    seated.client(engine=1)
    assert seated.heard() == [ClientAttached(client=7, lease_s=30.0, engine=1)]


def test_the_driver_completes_the_status(begun: Room) -> None:
    client = begun.client()
    client.receive()
    begun.dial().send_bytes(b"garbage")
    client.send(StatusRequest(request=4))
    blank = Status(
        request=4, seats=0, ready=0, busy=0, starting=0, waiting=0, queued=0, running=0, finished=0, failed=0,
        refused=2, engines=[], clients=1, pending=[],
    )  # fmt: skip
    begun.now += 5.0
    begun.order(TellClient(client=7, message=blank))
    expected = msgspec.structs.replace(blank, refused=3, uptime_s=5.0, node="here", pid=os.getpid())
    assert client.receive() == expected


# ---- who may come in -----------------------------------------------------------------------------------


def test_a_wrong_key_is_refused_before_anything_else(begun: Room) -> None:
    stranger = begun.client(key="guessed")
    assert stranger.receive().kind == "auth"
    assert stranger.is_dropped()
    assert begun.heard() == []


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x80" * 100, b"GET / HTTP/1.1\r\n\r\n", codec.encode(Scale(seats=1)), codec.encode(EndNode())],
)
def test_what_is_no_hello_is_refused(begun: Room, data: bytes) -> None:
    stranger = begun.dial()
    stranger.send_bytes(data)
    assert stranger.receive().kind == "protocol"
    assert stranger.is_dropped()
    assert begun.heard() == []


@pytest.mark.parametrize("message", [SeatsChanged(seats=1, ready=1, starting=0), Done(sequence=1, results=[])])
def test_a_client_that_says_what_only_others_may_say_is_dropped(begun: Room, message: SeatsChanged | Done) -> None:
    client = begun.client()
    client.receive()
    begun.heard()
    client.send(message)
    assert begun.heard() == [ClientGone(client=7)]
    assert client.receive().kind == "protocol"


def test_an_engine_that_nobody_asked_for_is_refused(begun: Room) -> None:
    for stranger in (begun.control(9), begun.data(9)):
        assert stranger.receive().kind == "taken"
        assert stranger.is_dropped()
    assert begun.heard() == []


def test_another_node_process_is_refused(seated: Room) -> None:
    assert seated.node().receive() == Refused(kind="taken", reason="this hub has another node process")
    assert seated.node(pid=1).receive().kind == "taken"


# ---- engines -------------------------------------------------------------------------------------------


def test_an_engine_takes_work_when_it_has_both_links(seated: Room) -> None:
    data = seated.data(1, received=3, holds=[11], running=True, redelivers=2)
    assert seated.heard() == []
    control = seated.control(1)
    assert seated.heard() == [
        EngineAttached(engine=1, rank=0, pid=501, received=3, holds=[11], running=True, redelivers=2)
    ]
    run, recalled = Run(function=b"f", calls=[], position=0), Recalled(position=0, until=1)
    seated.order(TellEngine(engine=1, message=run), TellEngine(engine=1, message=Exit()))
    assert [data.receive(), data.receive()] == [WELCOME, run]
    assert [control.receive(), control.receive()] == [WELCOME, Exit()]
    data.send(Done(sequence=1, results=[]))
    control.send(recalled)
    assert seated.heard() == [(1, Done(sequence=1, results=[])), (1, recalled)]


def test_a_second_link_of_the_same_kind_is_refused(seated: Room) -> None:
    attached(seated)
    assert seated.data(1).receive().kind == "taken"
    assert seated.control(1).receive().kind == "taken"


@pytest.mark.parametrize("closes", [False, True])
def test_an_engine_whose_other_link_went_to_a_hub_that_was_killed_dials_again(seated: Room, closes: bool) -> None:
    half = seated.data(1, attempt=1)
    half.send(Done(sequence=1, results=[]))
    if closes:
        half.close()
    assert seated.heard() == []
    control, data = seated.control(1, attempt=2), seated.data(1, attempt=2)
    assert [control.receive(), data.receive()] == [WELCOME] * 2
    assert seated.heard() == [EngineAttached(engine=1, rank=0, pid=501)]
    assert seated.control(1, attempt=1).receive().kind == "taken"
    data.send(Done(sequence=1, results=[]))
    assert seated.heard() == [(1, Done(sequence=1, results=[]))]


def test_an_end_is_reported_after_the_last_words_on_the_engines_own_link(seated: Room) -> None:
    control, data = attached(seated)
    node_of(seated).send(ProcessExited(engine=1, rank=0, exit_code=-9, last_output="ouch", evidence="peak memory 1 MB"))
    assert seated.heard() == []
    data.send(Done(sequence=1, results=[]))
    data.close()
    ended = EngineExited(engine=1, exit_code=-9, last_output="ouch", evidence="peak memory 1 MB")
    assert seated.heard() == [(1, Done(sequence=1, results=[])), ended]
    control.close()
    seated.later(2 * PATIENCE_S)
    assert seated.heard() == []


def test_an_end_is_reported_though_the_link_stays_open(seated: Room) -> None:
    attached(seated)
    node_of(seated).send(ProcessExited(engine=1, rank=0, exit_code=0))
    seated.later(2 * PATIENCE_S)
    assert seated.heard() == [EngineExited(engine=1, exit_code=0)]


def test_an_end_before_it_connected_is_reported_at_once(seated: Room) -> None:
    node_of(seated).send(ProcessExited(engine=1, rank=0, exit_code=1))
    assert seated.heard() == [EngineExited(engine=1, exit_code=1)]
    node_of(seated).send(ProcessExited(engine=1, rank=0, exit_code=1))
    assert seated.heard() == []


@pytest.mark.parametrize("which", [0, 1])
def test_a_broken_link_without_an_end_makes_an_engine_unreachable(seated: Room, which: int) -> None:
    links = attached(seated)
    links[which].close()
    assert seated.heard() == []
    again = seated.data(1) if which else seated.control(1)
    assert again.receive().kind == "taken"
    seated.later(2 * PATIENCE_S)
    assert seated.heard() == [EngineUnreachable(engine=1)]
    seated.order(KillEngine(engine=1, reason="unreachable"))
    assert node_of(seated).receive() == EndProcesses(engines=[1])


def test_a_signal_for_an_engine_goes_to_its_node(seated: Room) -> None:
    seated.order(SignalEngine(engine=1, signal=15))
    assert node_of(seated).receive() == SignalProcess(engine=1, signal=15)


def test_a_broken_link_with_an_end_is_that_end(seated: Room) -> None:
    control, data = attached(seated)
    data.close()
    control.close()
    node_of(seated).send(ProcessExited(engine=1, rank=0, exit_code=-11))
    seated.later(2 * PATIENCE_S)
    assert seated.heard() == [EngineExited(engine=1, exit_code=-11)]


def test_an_engine_that_says_nonsense_is_cut_off(seated: Room) -> None:
    _, data = attached(seated)
    data.send_bytes(b"\xc1\xc1")
    seated.later(2 * PATIENCE_S)
    assert seated.heard() == [EngineUnreachable(engine=1)]


def test_nothing_is_told_to_an_engine_that_has_gone(seated: Room) -> None:
    seated.order(TellEngine(engine=1, message=Exit()), TellEngine(engine=5, message=Exit()))


def test_what_could_not_be_forked_is_reported(seated: Room) -> None:
    node_of(seated).send(ForkFailed(engines=[1], reason="no memory"))
    assert seated.heard() == [StartFailed(engines=[1], reason="no memory")]
    assert seated.control(1).receive().kind == "taken"


# ---- the node ------------------------------------------------------------------------------------------


def test_seats_wait_for_the_node_and_travel_together(begun: Room) -> None:
    begun.order(*[StartEngine(engine=engine, rank=engine, node="here") for engine in range(3)])
    begun.order(KillEngine(engine=1, reason="not wanted any more"))
    assert begun.heard() == [EngineExited(engine=1, exit_code=None, evidence="it was not started")]
    node = begun.node()
    assert [node.receive(), node.receive()] == [WELCOME, Fork(seats=[Seat(engine=0, rank=0), Seat(engine=2, rank=2)])]


def test_a_node_that_dies_takes_its_engines_along_and_is_started_again(seated: Room) -> None:
    _, data = attached(seated)
    seated.order(StartEngine(engine=2, rank=1, node="here"))
    seated.process.end = "was killed by signal 9"
    node_of(seated).close()
    data.close()
    text = "the node process was killed by signal 9"
    assert seated.heard() == [
        StartFailed(engines=[2], reason=f"{text}; the end of its log:\nthe last line"),
        EngineExited(engine=1, exit_code=None, evidence=f"its node process{text.removeprefix('the node process')}"),
    ]
    assert seated.process.starts == 0
    seated.later(2 * FIRST_DELAY_S)
    assert seated.process.starts == 1
    seated.order(StartEngine(engine=3, rank=0, node="here"))
    node = seated.node()
    assert [node.receive(), node.receive()] == [WELCOME, Fork(seats=[Seat(engine=3, rank=0)])]


def test_a_node_that_cannot_start_is_tried_more_and_more_seldom(begun: Room) -> None:
    delays = []
    for engine in range(4):
        begun.order(StartEngine(engine=engine, rank=0, node="here"))
        begun.process.end = "exited with code 1"
        begun.hub.child_ended()
        begun.turn()
        [failed] = begun.heard()
        assert isinstance(failed, StartFailed)
        assert failed.reason.startswith("the node process exited with code 1")
        starts, since = begun.process.starts, begun.now
        while begun.process.starts == starts:
            begun.later(0.05)
        delays.append(begun.now - since)
    assert delays == sorted(delays)
    assert delays[-1] > 4 * delays[0]


def test_a_node_that_the_system_does_not_let_start_is_a_start_that_failed(seated: Room) -> None:
    seated.process.refuses = BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    node_of(seated).close()
    seated.heard()
    seated.order(StartEngine(engine=2, rank=0, node="here"))
    seated.later(2 * FIRST_DELAY_S)
    [failed] = seated.heard()
    assert isinstance(failed, StartFailed)
    assert "ulimit -u" in failed.reason
    seated.process.refuses = None
    seated.later(10.0)
    assert seated.process.starts == 1


def test_a_node_that_does_not_connect_is_replaced(begun: Room) -> None:
    begun.order(StartEngine(engine=1, rank=0, node="here"))
    begun.later(61.0)
    [failed] = begun.heard()
    assert isinstance(failed, StartFailed)
    assert "did not connect within 60 s" in failed.reason
    begun.later(1.0)
    assert begun.process.starts == 1


def test_the_end_of_a_connected_node_is_told_by_its_link(seated: Room) -> None:
    seated.process.end = "exited with code 0"
    seated.hub.child_ended()
    seated.turn()
    assert seated.heard() == []


# ---- after a restart -----------------------------------------------------------------------------------

LIVE = LiveEngine(engine=5, rank=2, pid=505)


def test_a_restarted_hub_hears_nobody_before_its_node(room: Room) -> None:
    room.hub.begin(resume=True)
    client, control = room.client(resumes=True), room.control(5)
    data = room.data(5, rank=2, received=4, redelivers=1)
    data.send(Done(sequence=9, results=[]))
    stranger = room.client(key="wrong", client=8)
    assert stranger.receive().kind == "auth"
    assert room.heard() == []
    room.node(engines=[LIVE], ended={4: 3})
    assert room.heard() == [
        RecoverFrom(node="here", engines=[LIVE], ended={4: 3}),
        NODE_UP,
        ClientAttached(client=7, lease_s=30.0, resumes=True),
        EngineAttached(engine=5, rank=2, pid=505, received=4, redelivers=1),
        (5, Done(sequence=9, results=[])),
    ]
    assert [client.receive(), control.receive(), data.receive()] == [WELCOME] * 3


def test_a_restarted_hub_whose_node_is_dead_starts_one_at_once(room: Room) -> None:
    room.process.end = "ended"
    room.hub.begin(resume=True)
    assert room.heard() == [RecoverFrom(node="here", engines=[]), NODE_UP]
    assert room.process.starts == 1
    assert room.client().receive() == WELCOME


def test_a_restarted_hub_whose_node_does_not_come_replaces_it(room: Room) -> None:
    room.hub.begin(resume=True)
    client = room.client()
    room.later(RECOVERY_PATIENCE_S + 0.1)
    assert room.heard() == [
        RecoverFrom(node="here", engines=[]),
        NODE_UP,
        ClientAttached(client=7, lease_s=30.0),
    ]
    assert client.receive() == WELCOME
    room.later(1.0)
    assert room.process.starts == 1


# ---- the end -------------------------------------------------------------------------------------------


def test_the_cluster_ends_when_the_scheduler_says_so(seated: Room) -> None:
    client = seated.client()
    client.receive()
    seated.order(ShutDown(reason="nobody is left"))
    assert seated.hub.run() == "nobody is left"
    seated.process.end = "exited with code 0"
    seated.hub.end()
    assert node_of(seated).receive() == EndNode()
    assert client.is_dropped()


def test_clients_are_told_when_the_hub_ends_by_itself(begun: Room) -> None:
    client = begun.client()
    client.receive()
    begun.hub.stop("SIGTERM")
    begun.process.end = "exited with code 0"
    begun.hub.end()
    assert client.receive() == HubStops(reason="SIGTERM")
    assert client.is_dropped()


def test_a_node_that_does_not_end_is_killed(seated: Room) -> None:
    seated.hub.stop("enough")
    waiter = threading.Timer(0.05, lambda: setattr(seated, "now", seated.now + 10.0))
    waiter.start()
    seated.hub.end()
    waiter.join()
    assert seated.process.end == "was killed by signal 9"


def test_it_may_be_stopped_from_elsewhere_while_it_waits(begun: Room) -> None:
    timer = threading.Timer(0.05, begun.hub.stop, ["told to"])
    timer.start()
    assert begun.hub.run() == "told to"
    begun.hub.stop("another reason")
    assert begun.hub.run() == "told to"
    timer.join()


def test_it_wakes_when_the_scheduler_asks_for_it(begun: Room) -> None:
    begun.scheduler.wakeup = begun.now + 0.05
    timer = threading.Timer(5.0, begun.hub.stop, ["too late"])
    timer.start()
    begun.scheduler.drain = lambda now: [ShutDown(reason="in time")]  # type: ignore[method-assign]
    assert begun.hub.run() == "in time"
    timer.cancel()
    timer.join()
