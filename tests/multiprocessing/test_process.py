"""Processes: begun, waited for, ended, one in another; what they take over and what they leave."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest

import fibernb as fnb
import fibernb.multiprocessing as mp
from fibernb.client import job
from fibernb.client.cluster import Cluster
from fibernb.multiprocessing.process import ClusterProcess
from tests.integration.conftest import interrupt_within
from tests.multiprocessing.conftest import wait_until


@pytest.fixture(autouse=True)
def _cluster(cluster: Cluster) -> Iterator[None]:
    yield
    assert not mp.active_children()


def write(path: Path, text: str) -> None:
    path.write_text(text)


def exit_with(code: Any) -> None:
    sys.exit(code)


def fail() -> None:
    raise ValueError("no such luck")


def stay(path: Path) -> None:
    path.touch()
    time.sleep(600)


def ended(process: ClusterProcess) -> int | None:
    process.start()
    process.join()
    return process.exitcode


# ---- a life --------------------------------------------------------------------------------------------------


def test_a_process_runs_its_target_elsewhere(tmp_path: Path) -> None:
    process = mp.Process(target=write, args=(tmp_path / "a",), kwargs={"text": "said"}, name="writer")
    assert (process.exitcode, process.pid, process.is_alive()) == (None, None, False)
    process.start()
    assert process.pid not in (None, os.getpid())
    assert process.ident == process.pid
    process.join()
    assert (process.exitcode, process.is_alive()) == (0, False)
    assert (tmp_path / "a").read_text() == "said"
    assert repr(process) == f"<Process name='writer' pid={process.pid} parent={os.getpid()} stopped exitcode=0>"
    process.close()
    with pytest.raises(ValueError, match="closed"):
        process.join()


class Writer(mp.Process):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def run(self) -> None:
        write(self.path, f"{self.name} {type(self).__name__}")


def test_a_subclass_overrides_run(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a")
    assert ended(writer) == 0
    assert (tmp_path / "a").read_text() == f"{writer.name} Writer"


@pytest.mark.parametrize(
    ("code", "seen"), [(None, 0), (3, 3), (0, 0), (-1, 255), (2**40 + 5, 5), ("a reason", 1), (True, 1)]
)
def test_exit_codes(code: Any, seen: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(mp.Process(target=exit_with, args=(code,))) == seen
    assert ("a reason" in capsys.readouterr().err) is (code == "a reason")


def test_an_exception_is_told_and_ends_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    process = mp.Process(target=fail, name="unlucky")
    assert ended(process) == 1
    told = capsys.readouterr().err
    assert told.startswith("Process unlucky:\nTraceback")
    assert "ValueError: no such luck" in told


def test_an_exit_without_a_word() -> None:
    assert ended(mp.Process(target=os._exit, args=(9,))) == 9


def test_the_output_is_unlabelled_and_there_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    def speak() -> None:
        print("one")
        os.write(1, b"two\n")
        sys.stderr.write("three")

    assert ended(mp.Process(target=speak)) == 0
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == ["one", "two"]
    assert err == "three"


def test_what_cannot_be_sent_is_an_error_at_once() -> None:
    process = mp.Process(target=print, args=(threading.Lock(),))
    with pytest.raises(TypeError, match="lock"):
        process.start()
    assert not mp.active_children()


def test_what_cannot_be_read_is_told_by_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(mp.Process(target=print, args=(Unreadable(),))) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


class Unreadable:
    def __reduce__(self) -> tuple[Any, ...]:
        return divmod, (1, 0)


# ---- waiting and ending ----------------------------------------------------------------------------------------


def test_waiting_for_a_while_and_the_sentinel(tmp_path: Path) -> None:
    process = mp.Process(target=stay, args=(tmp_path / "begun",))
    with pytest.raises(ValueError, match="not started"):
        _ = process.sentinel
    process.start()
    process.join(0.01)
    process.join(-1)
    assert (process.is_alive(), process.exitcode) == (True, None)
    assert wait([process.sentinel], 0) == []
    with pytest.raises(ValueError, match="still running"):
        process.close()
    process.kill()
    assert wait([process.sentinel]) == [process.sentinel]
    assert process.exitcode == -signal.SIGKILL
    process.close()


@pytest.mark.parametrize(("how", "number"), [("terminate", signal.SIGTERM), ("kill", signal.SIGKILL)])
@pytest.mark.parametrize("begun", [False, True])
def test_processes_are_ended(tmp_path: Path, how: str, number: int, begun: bool) -> None:
    process = mp.Process(target=stay, args=(tmp_path / "begun",))
    process.start()
    if begun:
        wait_until((tmp_path / "begun").exists)
    getattr(process, how)()
    process.join()
    assert process.exitcode == -number
    getattr(process, how)()  # harmless
    assert process.pid == process.ident
    with pytest.raises(ProcessLookupError):  # whether it had begun or not
        os.kill(process.pid or 0, 0)


def test_a_process_may_look_at_sigterm_itself(tmp_path: Path) -> None:
    def careful(begun: Path) -> None:
        signal.signal(signal.SIGTERM, lambda *_: exit_with(7))
        stay(begun)

    process = mp.Process(target=careful, args=(tmp_path / "begun",))
    process.start()
    wait_until((tmp_path / "begun").exists)
    process.terminate()
    process.join()
    assert process.exitcode == 7


def test_an_interrupt_from_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = mp.Process(target=stay, args=(tmp_path / "begun",))
    process.start()
    wait_until((tmp_path / "begun").exists)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 1
    assert "KeyboardInterrupt" in capsys.readouterr().err


def test_an_interrupt_while_waiting_reaches_the_children_but_for_daemons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waited, other = (mp.Process(target=stay, args=(tmp_path / name,)) for name in "ab")
    daemon = mp.Process(target=stay, args=(tmp_path / "c",), daemon=True)
    for process in (waited, other, daemon):
        process.start()
    wait_until(lambda: len(list(tmp_path.iterdir())) == 3)
    interrupt_within("join")
    with pytest.raises(KeyboardInterrupt):
        waited.join()
    waited.join()
    other.join()
    assert (waited.exitcode, other.exitcode, daemon.exitcode) == (1, 1, None)
    daemon.terminate()
    daemon.join()
    capsys.readouterr()


def test_active_children_are_those_that_live(tmp_path: Path) -> None:
    processes = [mp.Process(target=stay, args=(tmp_path / "begun",)) for _ in range(3)]
    for process in processes:
        process.start()
    assert set(mp.active_children()) == set(processes)
    for process in processes:
        process.kill()
        process.join()
    assert mp.active_children() == []


# ---- one in another ---------------------------------------------------------------------------------------------


def family(path: Path) -> None:
    me, parent = mp.current_process(), mp.parent_process()
    assert parent is not None
    assert parent.is_alive()
    assert os.getpid() == me.pid
    path.write_text(f"{me.name} of {parent.name}, {parent.pid}")


def fork_and_leave(path: Path, error: BaseException) -> None:
    """The forked process leaves by an exception; its exit code is written into the file."""
    forked = os.fork()
    if not forked:
        raise error
    path.write_text(str(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])))


@pytest.mark.parametrize(("error", "code"), [(SystemExit(3), "3"), (SystemExit(), "0"), (ValueError("not so"), "1")])
def test_what_a_process_forks_may_leave_by_an_exception(tmp_path: Path, error: BaseException, code: str) -> None:
    process = mp.Process(target=fork_and_leave, args=(tmp_path / "a", error))
    process.start()
    process.join(30)
    is_over = process.exitcode is not None
    process.kill()
    process.join()
    assert is_over
    assert process.exitcode == 0
    assert (tmp_path / "a").read_text() == code


def grand_family(path: Path) -> None:
    child = mp.Process(target=family, args=(path,))
    child.start()
    child.join()
    exit_with(child.exitcode)


def test_a_process_starts_processes(tmp_path: Path) -> None:
    process = mp.Process(target=grand_family, args=(tmp_path / "a",), name="P")
    assert ended(process) == 0
    number = process._identity[0]
    assert (tmp_path / "a").read_text() == f"Process-{number}:1 of P, {process.pid}"


def test_the_main_process_has_no_parent() -> None:
    assert mp.parent_process() is None
    assert mp.current_process().name == "MainProcess"


def parent_of_two(path: Path, number: int) -> None:
    for daemon in (False, True):
        mp.Process(target=note_and_stay, args=(path,), daemon=daemon).start()
    wait_until(lambda: len(list(path.iterdir())) == 2)
    os.kill(os.getpid(), number)


def note_and_stay(path: Path) -> None:
    (path / str(os.getpid())).touch()
    time.sleep(600)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def test_the_children_of_a_process_that_is_killed_end_with_it(tmp_path: Path) -> None:
    assert ended(mp.Process(target=parent_of_two, args=(tmp_path, signal.SIGKILL))) == -signal.SIGKILL
    children = [int(path.name) for path in tmp_path.iterdir()]
    wait_until(lambda: not any(map(is_alive, children)))


def starts_a_daemon(path: Path) -> None:
    mp.Process(target=note_and_stay, args=(path,), daemon=True).start()
    wait_until(lambda: list(path.iterdir()))


def test_daemons_end_with_their_parent(tmp_path: Path) -> None:
    assert ended(mp.Process(target=starts_a_daemon, args=(tmp_path,))) == 0
    [daemon] = [int(path.name) for path in tmp_path.iterdir()]
    wait_until(lambda: not is_alive(daemon))


def test_a_daemon_may_not_have_children(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(mp.Process(target=starts_a_daemon, args=(tmp_path,), daemon=True)) == 1
    assert "daemonic processes are not allowed to have children" in capsys.readouterr().err


def orphan(path: Path) -> None:
    parent = mp.parent_process()
    assert parent is not None
    (path / "begun").touch()
    parent.join()
    (path / f"alive: {parent.is_alive()}").touch()


def test_a_process_can_wait_for_its_parent(tmp_path: Path) -> None:
    code = f"""
        import fibernb, os, fibernb.multiprocessing as mp
        from pathlib import Path
        from tests.multiprocessing.test_process import orphan, wait_until
        fibernb.connect({fnb.current_cluster().name!r})
        process = mp.Process(target=orphan, args=(Path({str(tmp_path)!r}),))
        process.start()
        wait_until(Path({str(tmp_path / "begun")!r}).exists)
        os._exit(0)
    """
    run_here(code)
    wait_until((tmp_path / "alive: False").exists)


def run_here(code: str) -> None:
    """In another program, which holds the cluster no longer than it must."""
    environment = {**os.environ, "FIBERNB_LEASE_S": "1"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60, env=environment)


# ---- from tasks, actors and threads --------------------------------------------------------------------------------


def test_tasks_and_actors_start_processes(tmp_path: Path) -> None:
    @fnb.remote
    def task(path: Path) -> tuple[int | None, str]:
        process = mp.Process(target=write, args=(path, "by a task's"))
        process.start()
        process.join()
        return process.exitcode, mp.current_process().name

    assert fnb.get(task.remote(tmp_path / "a")) == (0, "MainProcess")
    assert (tmp_path / "a").read_text() == "by a task's"


def test_processes_submit_tasks(tmp_path: Path) -> None:
    def work(path: Path) -> None:
        square = fnb.remote(lambda x: x * x)
        path.write_text(str(sum(fnb.get([square.remote(x) for x in range(4)]))))

    assert ended(mp.Process(target=work, args=(tmp_path / "a",))) == 0
    assert (tmp_path / "a").read_text() == "14"


def test_threads_start_processes(tmp_path: Path) -> None:
    codes: list[int | None] = []

    def start(number: int) -> None:
        codes.append(ended(mp.Process(target=exit_with, args=(number,))))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes, key=str) == list(range(8))


# ---- what it takes over ----------------------------------------------------------------------------------------------


def tell_surroundings(path: Path) -> None:
    lines = [os.getcwd(), os.environ["PASSED_ON"], sys.argv[-1], sys.path[-1], mp.current_process().authkey.hex()]
    path.write_text("\n".join(lines))


def test_directory_environment_arguments_path_and_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PASSED_ON", "yes")
    monkeypatch.setattr(sys, "argv", [*sys.argv, "an argument"])
    monkeypatch.setattr(sys, "path", [*sys.path, "/a/path"])
    assert ended(mp.Process(target=tell_surroundings, args=(tmp_path / "a",))) == 0
    expected = [str(tmp_path), "yes", "an argument", "/a/path", mp.current_process().authkey.hex()]
    assert (tmp_path / "a").read_text().splitlines() == expected


def test_a_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert ended(mp.Process(target=exit_with, args=(0,))) == 0


def test_the_logger_speaks_in_processes_too() -> None:
    logger = mp.get_logger()
    said = io.StringIO()
    before = list(logger.handlers), logger.level
    try:
        with contextlib.redirect_stderr(said):
            mp.log_to_stderr(10)
            process = mp.Process(target=exit_with, args=(0,))
            assert ended(process) == 0
    finally:
        logger.handlers[:], logger.level = before
        mp.util._log_to_stderr = False
    assert "child process calling self.run()" in said.getvalue()


def test_an_other_process_object_among_the_arguments(tmp_path: Path) -> None:
    def look(other: Any, path: Path) -> None:
        path.write_text(f"{other.name} {other._popen}")

    other = mp.Process(target=exit_with, args=(0,), name="other")
    assert ended(other) == 0
    assert ended(mp.Process(target=look, args=(other, tmp_path / "a"))) == 0
    assert (tmp_path / "a").read_text() == "other None"


def test_the_runtime_environment_goes_before_what_the_parent_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSED_ON", "by the parent")
    configured = job.configured(None, {"env_vars": {"PASSED_ON": "by the environment"}})
    assert configured is not None
    job.use(configured)
    try:
        assert ended(mp.Process(target=tell_surroundings, args=(tmp_path / "a",))) == 0
    finally:
        job.use(job.Job())
    assert (tmp_path / "a").read_text().splitlines()[1] == "by the environment"


@fnb.meta(cpu=1000)
def too_much() -> None:
    """What no cluster of this size can have."""


def test_a_process_that_cannot_be_had_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    process = mp.Process(target=too_much)
    assert ended(process) == 1
    assert f"pid={process.pid} " in repr(process)
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid or 0, 0)
    assert "it asks for 1000 cpus" in capsys.readouterr().err


@fnb.meta(cpu=2)
def on_both_seats(path: Path) -> None:
    path.write_text(str(fnb.available_resources().get("CPU", 0)))


def test_a_process_has_what_its_function_needs(tmp_path: Path) -> None:
    assert ended(mp.Process(target=on_both_seats, args=(tmp_path / "a",))) == 0
    assert float((tmp_path / "a").read_text()) == 0
