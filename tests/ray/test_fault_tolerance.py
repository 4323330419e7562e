# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Ray's pages on faults: exceptions, retries, restarts, checkpoints, lost objects."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fibernb as ray
from tests.integration.conftest import wait_until


def times(path: Path) -> int:
    """How often something has left its mark."""
    return len(path.read_text()) if path.exists() else 0


def mark(path: str) -> int:
    with open(path, "a") as file:
        file.write("x")
    return os.path.getsize(path)


# ---- tasks --------------------------------------------------------------------------------------------------


def test_an_exception_comes_back_as_itself() -> None:
    class OwnError(Exception):
        pass

    @ray.remote
    def fail() -> None:
        raise OwnError("a user's exception")

    with pytest.raises(OwnError, match="a user's exception") as caught:
        ray.get(fail.remote())
    assert "in fail" in str(caught.value.__cause__)


def test_an_exception_reaches_what_depends_on_it() -> None:
    @ray.remote
    def fail() -> int:
        raise ZeroDivisionError("the real error")

    @ray.remote
    def never(value: int) -> int:
        return value

    with pytest.raises(ZeroDivisionError, match="the real error"):
        ray.get(never.remote(fail.remote()))


def test_an_exit_is_an_exception() -> None:
    @ray.remote
    def leave() -> None:
        sys.exit(3)

    @ray.remote
    class Leaver:
        def leave(self) -> None:
            sys.exit(4)

        def stays(self) -> bool:
            return True

    leaver = Leaver.remote()
    for ref, code in ((leave.remote(), 3), (leaver.leave.remote(), 4)):
        with pytest.raises(SystemExit) as caught:
            ray.get(ref)
        assert caught.value.code == code
    assert ray.get(leaver.stays.remote())


def test_an_exception_that_cannot_be_pickled() -> None:
    @ray.remote
    def fail() -> None:
        error = RuntimeError("cannot travel")
        error.lock = __import__("threading").Lock()
        raise error

    with pytest.raises(Exception, match="cannot travel"):
        ray.get(fail.remote(), timeout=20)


def test_a_task_whose_worker_dies_runs_again(tmp_path: Path) -> None:
    @ray.remote(max_retries=1)
    def die_once(path: str) -> str:
        if mark(path) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return "survived"

    assert ray.get(die_once.remote(str(tmp_path / "runs")), timeout=30) == "survived"
    assert times(tmp_path / "runs") == 2


def test_retries_have_an_end(tmp_path: Path) -> None:
    @ray.remote(max_retries=1)
    def die(path: str) -> None:
        mark(path)
        os._exit(3)

    with pytest.raises(ray.exceptions.WorkerCrashedError, match="code 3"):
        ray.get(die.remote(str(tmp_path / "runs")), timeout=30)
    assert times(tmp_path / "runs") == 2


def test_exceptions_are_not_tried_again_unless_told(tmp_path: Path) -> None:
    @ray.remote(max_retries=3)
    def fail(path: str) -> None:
        mark(path)
        raise ValueError("once")

    with pytest.raises(ValueError, match="once"):
        ray.get(fail.remote(str(tmp_path / "runs")))
    assert times(tmp_path / "runs") == 1


@pytest.mark.parametrize("kinds", [True, [ValueError], [OSError, LookupError, ValueError]])
def test_exceptions_that_are_tried_again(tmp_path: Path, kinds: Any) -> None:
    @ray.remote(max_retries=3, retry_exceptions=kinds)
    def fail_twice(path: str) -> int:
        runs = mark(path)
        if runs < 3:
            raise ValueError("not yet")
        return runs

    assert ray.get(fail_twice.remote(str(tmp_path / "runs")), timeout=20) == 3


def test_other_exceptions_are_not(tmp_path: Path) -> None:
    @ray.remote(max_retries=3, retry_exceptions=[KeyError])
    def fail(path: str) -> None:
        mark(path)
        raise ValueError("another kind")

    with pytest.raises(ValueError, match="another kind"):
        ray.get(fail.remote(str(tmp_path / "runs")))
    assert times(tmp_path / "runs") == 1


# ---- actors -------------------------------------------------------------------------------------------------


@ray.remote(max_restarts=2, max_task_retries=-1)
class Mortal:
    """Dies at every third call."""

    def __init__(self) -> None:
        self.calls = 0

    def call(self) -> int:
        self.calls += 1
        if self.calls == 3:
            os._exit(1)
        return self.calls

    def process(self) -> int:
        return os.getpid()


def test_an_actor_that_is_restarted_begins_anew() -> None:
    mortal = Mortal.remote()
    assert [ray.get(mortal.call.remote(), timeout=30) for _ in range(6)] == [1, 2, 1, 2, 1, 2]
    with pytest.raises(ray.exceptions.RayActorError, match="restart"):
        ray.get(mortal.call.remote(), timeout=30)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(mortal.call.remote(), timeout=30)


def test_without_restarts_an_actor_is_dead(tmp_path: Path) -> None:
    mortal = Mortal.options(max_restarts=0, max_task_retries=0).remote()
    with pytest.raises(ray.exceptions.ActorDiedError, match="code 1"):
        ray.get([mortal.call.remote() for _ in range(3)], timeout=30)


def test_a_call_without_retries_fails_and_the_next_one_works() -> None:
    mortal = Mortal.options(max_task_retries=0).remote()
    assert ray.get([mortal.call.remote() for _ in range(2)]) == [1, 2]
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(mortal.call.remote(), timeout=30)
    assert ray.get(mortal.call.remote(), timeout=30) == 1


def test_kill_may_leave_the_restart() -> None:
    mortal = Mortal.remote()
    first = ray.get(mortal.process.remote())
    ray.kill(mortal, no_restart=False)
    assert ray.get(mortal.process.remote(), timeout=30) != first


def test_exceptions_of_methods_are_tried_again_when_told(tmp_path: Path) -> None:
    @ray.remote
    class Unsteady:
        @ray.method(max_task_retries=5, retry_exceptions=[ValueError])
        def work(self, path: str) -> int:
            runs = mark(path)
            if runs < 3:
                raise ValueError("not yet")
            return runs

    assert ray.get(Unsteady.remote().work.remote(str(tmp_path / "runs")), timeout=20) == 3


def test_an_actor_saves_itself(tmp_path: Path) -> None:
    """The checkpoint by hand: a file that the constructor reads."""

    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class Immortal:
        def __init__(self, path: str) -> None:
            self.path = path
            self.state = int(Path(path).read_text()) if os.path.exists(path) else 0

        def update(self) -> int:
            self.state += 1
            Path(self.path).write_text(str(self.state))
            return self.state

        def die(self, path: str) -> int:
            if mark(path) == 1:
                os._exit(1)
            return self.state

    immortal = Immortal.remote(str(tmp_path / "checkpoint"))
    assert ray.get([immortal.update.remote() for _ in range(3)]) == [1, 2, 3]
    assert ray.get(immortal.die.remote(str(tmp_path / "died")), timeout=30) == 3
    assert ray.get(immortal.update.remote()) == 4


def test_an_actor_is_saved_for_it(tmp_path: Path) -> None:
    """FiberNB's own: what `__fibernb_checkpoint__` gives, `__fibernb_restore__` gets."""

    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class Saved:
        def __init__(self) -> None:
            self.state = 0

        def update(self) -> int:
            self.state += 1
            return self.state

        def die(self, path: str) -> int:
            if mark(path) == 1:
                os._exit(1)
            return self.state

        def __fibernb_checkpoint__(self) -> int:
            return self.state

        def __fibernb_restore__(self, state: int) -> None:
            self.state = state

    saved = Saved.remote()
    assert ray.get([saved.update.remote() for _ in range(3)]) == [1, 2, 3]
    assert ray.get(saved.die.remote(str(tmp_path / "died")), timeout=30) == 3
    assert ray.get(saved.update.remote()) == 4


def test_an_actor_that_its_creator_makes_again(tmp_path: Path) -> None:
    @ray.remote(num_cpus=0)
    class Worker:
        def __init__(self) -> None:
            self.state = 0

        def execute(self, number: int) -> int:
            if number == 3 and mark(str(tmp_path / "deaths")) == 1:
                os._exit(1)
            self.state += number
            return self.state

        def checkpoint(self) -> int:
            return self.state

        def restore(self, state: int) -> None:
            self.state = state

    class Controller:
        def __init__(self) -> None:
            self.worker = Worker.remote()
            self.state = ray.get(self.worker.checkpoint.remote())

        def execute(self, number: int) -> int:
            while True:
                try:
                    result = int(ray.get(self.worker.execute.remote(number), timeout=30))
                    self.state = ray.get(self.worker.checkpoint.remote())
                    return result
                except ray.exceptions.RayActorError:
                    self.worker = Worker.remote()
                    ray.get(self.worker.restore.remote(self.state))

    controller = Controller()
    assert [controller.execute(number) for number in range(1, 6)] == [1, 3, 6, 10, 15]
    assert times(tmp_path / "deaths") == 2


def test_an_actor_ends_with_the_actor_that_made_it() -> None:
    @ray.remote(max_restarts=-1)
    class Child:
        def process(self) -> int:
            return os.getpid()

    @ray.remote
    class Parent:
        def make(self) -> Any:
            self.child = Child.remote()
            return ray.get(self.child.process.remote())

    parent = Parent.remote()
    pid = ray.get(parent.make.remote())
    ray.kill(parent)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


# ---- objects ------------------------------------------------------------------------------------------------


def test_a_worker_that_dies_takes_no_results_with_it() -> None:
    @ray.remote
    def make() -> tuple[int, Any]:
        return os.getpid(), np.arange(500_000)

    ref = make.remote()
    pid, _ = ray.get(ref)
    os.kill(pid, signal.SIGKILL)
    assert int(ray.get(ref)[1].sum()) == sum(range(500_000))
