import json
from typing import Any

from fibernb.core.messages import (
    Blocked,
    Cancel,
    CreateActor,
    CreateGroup,
    Fetch,
    Hold,
    PutObjects,
    Release,
    Scale,
    State,
    StateRequest,
    Unblocked,
)
from fibernb.core.rows import client_name, name_of
from fibernb.model import ActorOptions, Outcome, Resources, Result, TaskOptions
from tests.core.bench import ANNA, BERT, Bench, F, task
from tests.core.invariants import board_of


def ask(bench: Bench, kind: str, limit: int = 100, **where: str) -> tuple[list[dict[str, Any]], int]:
    bench.say(StateRequest(request=3, kind=kind, limit=limit, where=where))
    (state,) = bench.told(ANNA, State)
    assert state.request == 3
    return json.loads(state.rows), state.total


def test_tasks_that_run_wait_and_have_ended() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.answer(1, Result(task(1), b"oops", Outcome.ERROR))
    bench.submit(2, options=TaskOptions(name="shown"))
    bench.submit(3, deps=[task(2)], parent=task(2))
    rows, total = ask(bench, "tasks")
    assert [row["task_id"] for row in rows] == [name_of(task(number)) for number in (3, 2, 1)]
    assert [row["state"] for row in rows] == ["WAITING", "RUNNING", "FAILED"]
    assert [row["name"] for row in rows] == ["f", "shown", "f"]
    assert total == 3
    assert (rows[0]["waits_for"], rows[0]["parent_task_id"]) == ([name_of(task(2))], name_of(task(2)))
    assert (rows[1]["rank"], rows[1]["engine"], rows[1]["node"], rows[1]["client"]) == (0, 1, "local", "client 5")
    assert (rows[0]["rank"], rows[1]["waits_for"]) == (None, [])
    assert rows[2]["node"] == "local"
    assert rows[2]["error"] == "oops"
    bench.exit(1)
    assert ask(bench, "tasks", state="FAILED")[0][0]["node"] == "", "nobody knows any more"


def test_tasks_that_no_engine_has_answered() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(max_retries=0))
    bench.submit(2)
    bench.submit(3, options=TaskOptions(name="large", resources=Resources(milli_cpus=90_000)))
    bench.say(Cancel(tasks=[task(2)]))
    bench.exit(1)
    rows, _ = ask(bench, "tasks")
    found = {row["task_id"]: (row["name"], row["state"], row["engine"], row["error"].split()[0]) for row in rows}
    assert found == {
        name_of(task(1)): ("f", "FAILED", None, "died"),
        name_of(task(2)): ("f", "CANCELLED", None, "cancelled:"),
        name_of(task(3)): ("large", "FAILED", None, "unschedulable:"),
    }


def test_not_more_rows_than_asked_for_and_only_those() -> None:
    bench = Bench(seats=1)
    for number in range(3):
        bench.submit(number)
        bench.answer(1, Result(task(number), b""))
    rows, total = ask(bench, "tasks", limit=2)
    assert [row["task_id"] for row in rows] == [name_of(task(2)), name_of(task(1))]
    assert total == 3
    assert ask(bench, "tasks", state="FAILED") == ([], 0)
    assert ask(bench, "tasks", state="FINISHED", task_id=name_of(task(1)))[1] == 1
    assert ask(bench, "tasks", color="red") == ([], 0)
    assert ask(bench, "tasks", actor_id="")[1] == 3
    assert ask(bench, "cats") == ([], 0)
    assert ask(bench, "tasks", limit=-1) == ([], 3)


def test_spans() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.answer(1, Result(task(1), b""), run_s=0.25)
    rows, _ = ask(bench, "spans")
    assert rows == [
        {
            "rank": 0,
            "engine": 1,
            "name": "f",
            "count": 1,
            "began_s": 0.0,
            "ended_s": 0.25,
            "first_task_id": name_of(task(1)),
            "last_task_id": name_of(task(1)),
            "failed": 0,
            "waited_s": 0.0,
        }
    ]


def test_spans_tell_how_long_their_first_call_waited_for_an_engine() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.submit(2, deps=[task(1)])
    bench.now += 2.0
    bench.answer(1, Result(task(1), b""), run_s=0.5)
    bench.now += 1.0
    bench.answer(1, Result(task(2), b""), run_s=0.25)
    rows, _ = ask(bench, "spans")
    assert [(row["first_task_id"], row["waited_s"]) for row in rows] == [
        (name_of(task(2)), 0.75),  # since its input was there
        (name_of(task(1)), 1.5),
    ]


def test_waits() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(Blocked(task=task(1)))
    bench.now += 1.0
    bench.say(Unblocked(task=task(1)))
    bench.now += 1.0
    bench.say(Blocked(task=task(1)))
    bench.say(Scale(seats=0))
    bench.submit(2, 3, options=TaskOptions(name="later"))
    bench.now += 4.0
    rows, total = ask(bench, "waits")
    assert total == 3
    assert [(row["kind"], row["rank"], row["name"], row["count"], row["open"]) for row in rows] == [
        ("queued", None, "later", 2, True),
        ("blocked", 0, "f", 1, True),
        ("blocked", 0, "f", 1, False),
    ]
    assert [(row["began_s"] - 100, row["ended_s"] - 100) for row in rows] == [(2.0, 6.0), (2.0, 6.0), (0.0, 1.0)]
    assert {row["task_id"] for row in rows} == {name_of(task(1)), name_of(task(2))}


def test_objects() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT, engine=1)
    bench.submit(1)
    bench.say(Fetch(objects=[task(1)]), client=BERT)
    bench.say(PutObjects(objects=[Result(task(2), b"oops", Outcome.ERROR), Result(task(3), b"", blocks=(7,))]))
    bench.say(PutObjects(objects=[Result(task(4), b"four", refs=(task(3),))]))
    rows, _ = ask(bench, "objects")
    assert [row["object_id"] for row in rows] == [name_of(task(number)) for number in (4, 3, 2, 1)]
    assert [row["state"] for row in rows] == ["READY", "READY", "ERROR", "PENDING"]
    assert [row["holders"] for row in rows] == [["client 5"]] * 3 + [["rank 0"]]
    assert (rows[0]["contains"], rows[0]["inline_bytes"], rows[1]["uses"], rows[1]["blocks"]) == (1, 4, 1, ["0x7"])
    bench.answer(1, Result(task(1), b"", blocks=(8,)))
    bench.say(Fetch(objects=[], lost=[8]))
    (row,), _ = ask(bench, "objects", state="LOST")
    assert (row["made_by"], row["lost"]) == ("f", "its memory is gone")


def test_objects_tell_who_made_them() -> None:
    bench = Bench(seats=1)
    bench.say(PutObjects(objects=[Result(task(1), b"", blocks=(7,))]))
    bench.submit(2, options=TaskOptions(name="shown", max_retries=0))
    bench.answer(1, Result(task(2), b"", blocks=(8,)))
    bench.say(CreateActor(actor=task(5), function=F, args=b"", options=ActorOptions(class_name="Counter")))
    bench.say(CreateGroup(group=task(6), bundles=[Resources()]))
    bench.say(Hold(objects=[task(id_) for id_ in (5, 6)]), client=ANNA)
    rows, _ = ask(bench, "objects")
    assert {row["object_id"]: row["made_by"] for row in rows} == {
        name_of(task(1)): "put",
        name_of(task(2)): "shown",
        name_of(task(5)): "actor Counter",
        name_of(task(6)): "placement group",
    }


def test_clients_have_names() -> None:
    bench = Bench(seats=1)
    bench.attach(BERT, engine=99)
    board = board_of(bench.scheduler)
    assert [client_name(board, client) for client in (ANNA, BERT, 255)] == ["client 5", "client 6", "client ff"]
    bench.say(CreateActor(actor=task(5), function=F, args=b""))
    bench.attach(7, engine=2)
    assert client_name(board, 7) == "extra 2"


def test_engines_on_seats_and_beside_them() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.say(CreateActor(actor=task(5), function=F, args=b""))
    extra, seat = ask(bench, "engines")[0]
    assert (extra["rank"], extra["state"], extra["actor_id"]) == (-2, "starting", name_of(task(5)))
    assert (seat["rank"], seat["state"], seat["function"], seat["task_id"]) == (0, "busy", "f", name_of(task(1)))
    assert (seat["node"], seat["pid"], seat["actor_id"]) == ("local", 1001, "")
    bench.exit(1)
    assert ask(bench, "engines", rank="0")[0][0]["node"] == "local"


def test_actors() -> None:
    bench = Bench(seats=1)
    bench.say(CreateActor(actor=task(5), function=F, args=b"", options=ActorOptions(name="five")))
    (row,), _ = ask(bench, "actors")
    assert (row["actor_id"], row["state"]) == (name_of(task(5)), "STARTING")
    assert (row["class_name"], row["name"]) == ("f", "five")
    bench.say(CreateActor(actor=task(6), function=F, args=b"", deps=(task(99),)))
    (row,), _ = ask(bench, "actors", actor_id=name_of(task(6)))
    assert (row["state"], row["rank"], row["running"]) == ("DEAD", None, 0)


def test_actors_that_nobody_can_ask_for_any_more() -> None:
    bench = Bench(seats=1)
    for number in (5, 6):
        options = ActorOptions(name=f"a{number}", max_restarts=2)
        bench.say(CreateActor(actor=task(number), function=F, args=b"", deps=(task(99),), options=options))
    bench.say(Release(objects=[task(5)]))
    assert [row["name"] for row in ask(bench, "actors")[0]] == ["a6"]
    rows, _ = ask(bench, "all actors")
    assert [(row["name"], row["state"]) for row in rows] == [("a6", "DEAD"), ("a5", "DEAD")]
    assert rows[0].keys() == rows[1].keys()
    assert (rows[1]["class_name"], rows[1]["max_restarts"], rows[1]["pid"]) == ("f", 2, None)
    assert rows[1]["ended"] == rows[0]["ended"]


def test_placement_groups() -> None:
    bench = Bench(seats=2)
    bundles = [Resources(milli_cpus=1000, memory_bytes=10), Resources(milli_cpus=0, custom={"disk": 500})]
    bench.say(CreateGroup(group=task(5), bundles=bundles, name="pair"))
    bench.say(CreateGroup(group=task(6), bundles=[Resources(milli_cpus=9000)]))
    pending, created = ask(bench, "groups")[0]
    assert (created["state"], created["strategy"], created["name"]) == ("CREATED", "PACK", "pair")
    assert created["bundles"] == [{"node": "local", "CPU": 1.0, "memory": 10}, {"node": "local", "disk": 0.5}]
    assert pending["bundles"] == [{"node": "", "CPU": 9.0}]


def test_nodes() -> None:
    bench = Bench(seats=2)
    bench.submit(1)
    total = {"CPU": 2.0, "GPU": 2.0, "memory": 1000, "disk": 1.0}
    assert ask(bench, "nodes") == ([{"node": "local", "alive": True, "total": total, "free": {**total, "CPU": 1.0}}], 1)
