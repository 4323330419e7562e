from fibernb import serialize
from fibernb.core.errorvalues import ErrorValues
from fibernb.errors import (
    ActorDied,
    ObjectLost,
    OutOfMemory,
    SerializationError,
    TaskCancelled,
    TaskError,
    TaskUnschedulable,
    WorkerDied,
)

ERRORS = ErrorValues()


def test_a_dead_engine() -> None:
    error = serialize.loads_error(ERRORS.worker_died(3, "here", -9, "last words", "peak memory 9 GB"))
    assert isinstance(error, WorkerDied)
    assert (error.rank, error.node, error.signal, error.evidence) == (3, "here", 9, "peak memory 9 GB")
    assert "last words" in str(error)


def test_what_people_are_told_in_short() -> None:
    assert ERRORS.told(ERRORS.refused("not now\nbut later")) == "TaskError: not now"
    assert ERRORS.told(b"something else") == ""


def test_cancelled_is_made_once_a_reason() -> None:
    value = ERRORS.cancelled("it was cancelled")
    assert isinstance(serialize.loads_error(value), TaskCancelled)
    assert ERRORS.cancelled("it was cancelled") is value
    replaced = serialize.loads_error(ERRORS.cancelled("it was cancelled", engine_replaced=True))
    assert isinstance(replaced, TaskCancelled)
    assert replaced.engine_replaced


def test_what_can_never_run_says_what_there_is() -> None:
    error = serialize.loads_error(ERRORS.unschedulable("2 gpus", "1 gpu"))
    assert isinstance(error, TaskUnschedulable)
    assert "asks for 2 gpus" in str(error)
    assert "can have is 1 gpu" in str(error)


def test_a_missing_rank_says_which_exist() -> None:
    texts = [str(serialize.loads_error(ERRORS.no_such_rank(9, seats))) for seats in (0, 1, 4)]
    assert "the cluster has no seats" in texts[0]
    assert "the only rank is 0" in texts[1]
    assert "ranks are 0 to 3" in texts[2]


def test_others() -> None:
    assert isinstance(serialize.loads_error(ERRORS.unknown_object(255)), ObjectLost)
    lost = serialize.loads_error(ERRORS.object_lost(255, "its store ended"))
    assert isinstance(lost, ObjectLost)
    assert str(lost) == "the value of object 0xff is lost: its store ended"
    assert isinstance(serialize.loads_error(ERRORS.out_of_memory(3, "here", -9, "", "9 GB of 8")), OutOfMemory)
    dead = serialize.loads_error(ERRORS.actor_died("Counter", "it was killed"))
    assert isinstance(dead, ActorDied)
    assert "Counter does not answer: it was killed" in str(dead)
    too_large = serialize.loads_error(ERRORS.too_large(2000, 1000))
    assert isinstance(too_large, SerializationError)
    assert "2,000 bytes" in str(too_large)
    assert str(serialize.loads_error(ERRORS.refused("no"))) == "no"
    assert type(serialize.loads_error(ERRORS.refused("no"))) is TaskError


def test_the_bytes_can_be_made_otherwise() -> None:
    assert ErrorValues(dumps=lambda error: repr(error).encode()).refused("no") == b"TaskError('no')"
