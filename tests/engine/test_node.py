"""A real node process with real engines, under a hub that the test plays."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cloudpickle import register_pickle_by_value

from fibernb.core.messages import Exit, Interrupt
from fibernb.model import Outcome
from fibernb.wire.handshake import EndNode, EndProcesses, SignalProcess
from tests.engine.conftest import NodeProcess, is_alive
from tests.engine.fakehub import FakeHub

register_pickle_by_value(sys.modules[__name__])  # engines cannot import it


def wait_for(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_engines_are_forked_and_run_calls(node: NodeProcess) -> None:
    node.hub.fork([0, 1, 2])
    assert node.hub.node_hello is not None
    assert node.hub.node_hello.pid == node.process.pid
    pids = [node.hub.call(engine, os.getpid) for engine in range(3)]
    assert pids == node.pids()
    assert len(set(pids)) == 3
    assert all(b"fibernb" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)
    assert Path(f"/proc/{pids[1]}/comm").read_text().strip() == "fibernb-r1"
    assert len({node.hub.call(engine, random.random) for engine in range(3)}) == 3
    node.hub.fork([3])
    assert node.hub.call(3, random.random) != node.hub.call(0, random.random)


def test_an_orderly_exit(node: NodeProcess) -> None:
    node.hub.fork([0])
    assert node.hub.call(0, len, "abc") == 3
    node.hub.control(0, Exit())
    node.hub.wait(lambda: 0 in node.hub.exits)
    assert node.hub.exits[0].exit_code == 0


def test_exit_functions_of_the_user_run_at_an_orderly_exit(node: NodeProcess, tmp_path: Path) -> None:
    def register(path: str) -> None:
        import atexit

        atexit.register(Path(path).write_text, "bye")

    node.hub.fork([0])
    node.hub.call(0, register, str(tmp_path / "said"))
    node.hub.control(0, Exit())
    node.hub.wait(lambda: 0 in node.hub.exits)
    assert (tmp_path / "said").read_text() == "bye"


def die_by(number: int) -> None:
    print("about to die")
    os.kill(os.getpid(), number)
    time.sleep(10)


def exit_with(code: int) -> None:
    os._exit(code)


def crash() -> None:
    ctypes.string_at(0)


def test_deaths_are_reported_with_code_output_and_evidence(node: NodeProcess) -> None:
    node.hub.fork([0, 1, 2, 3])
    node.hub.send(0, exit_with, (7,))
    node.hub.send(1, die_by, (signal.SIGKILL,))
    node.hub.send(2, die_by, (signal.SIGTERM,))
    node.hub.send(3, crash, ())
    node.hub.wait(lambda: len(node.hub.exits) == 4)
    exits = node.hub.exits
    assert [exits[engine].exit_code for engine in range(4)] == [7, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGSEGV]
    assert exits[1].last_output == "about to die\n"
    assert exits[1].evidence.endswith("killed from outside")
    assert exits[1].rank == 1
    assert "peak memory" in exits[0].evidence
    assert "Segmentation fault" in exits[3].last_output
    assert "crash" in exits[3].last_output


def fork_and_go_on() -> int:
    return os.fork()


def test_a_process_that_a_task_forks_does_not_act_as_the_engine(node: NodeProcess) -> None:
    node.hub.fork([0])
    child = node.hub.call(0, fork_and_go_on)
    assert child > 0
    wait_for(lambda: not is_alive(child))
    assert len(node.hub.results) == 1
    assert node.hub.call(0, len, "ab") == 2


def test_a_seat_can_be_filled_again(node: NodeProcess) -> None:
    node.hub.fork([0])
    node.hub.send(0, die_by, (signal.SIGKILL,))
    node.hub.wait(lambda: 0 in node.hub.exits)
    node.hub.fork([5])
    assert node.hub.call(5, len, "ab") == 2


def start_sleeper() -> int:
    return subprocess.Popen(["sleep", "60"]).pid


def test_killing_takes_along_what_the_engine_has_started(node: NodeProcess) -> None:
    node.hub.fork([0, 1])
    killed, died = node.hub.call(0, start_sleeper), node.hub.call(1, start_sleeper)
    node.hub.tell_node(EndProcesses(engines=[0, 99]))
    node.hub.send(1, exit_with, (0,))
    node.hub.wait(lambda: len(node.hub.exits) == 2)
    assert node.hub.exits[0].exit_code == -signal.SIGKILL
    assert "outside" not in node.hub.exits[0].evidence
    wait_for(lambda: not is_alive(killed) and not is_alive(died))


STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
sys.stdin.read()
"""


def start_tracker(path: str) -> int:
    """As a resource tracker: it heeds no signal, and removes what was its program's when that has ended."""
    source = STUBBORN + f"import os, time; time.sleep(0.05); os.remove({path!r})"
    return start_stubborn(source)


def start_stubborn(source: str = STUBBORN + "signal.pause()") -> int:
    started = subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.readline()
    left.append(started)
    return started.pid


left: list[subprocess.Popen[bytes]] = []  # in the engine: else the end of the pipe would be closed at once


@pytest.mark.parametrize("ends", [EndProcesses(engines=[0, 1]), EndNode()])
def test_what_clears_up_after_an_engine_may_and_what_goes_on_is_killed(
    node: NodeProcess, tmp_path: Path, ends: EndProcesses | EndNode
) -> None:
    node.hub.fork([0, 1])
    path = tmp_path / "of the engine"
    path.touch()
    tracker, stubborn = node.hub.call(0, start_tracker, str(path)), node.hub.call(1, start_stubborn)
    node.hub.tell_node(ends)
    wait_for(lambda: not is_alive(tracker) and not is_alive(stubborn))
    assert not path.exists()


def test_a_signal_goes_to_the_engine_alone(node: NodeProcess) -> None:
    node.hub.fork([0])
    child = node.hub.call(0, start_sleeper)
    node.hub.tell_node(SignalProcess(engine=99, signal=signal.SIGTERM))
    node.hub.tell_node(SignalProcess(engine=0, signal=signal.SIGTERM))
    node.hub.wait(lambda: 0 in node.hub.exits)
    assert node.hub.exits[0].exit_code == -signal.SIGTERM
    wait_for(lambda: not is_alive(child))


def test_a_hundred_engines_up_and_down(node: NodeProcess) -> None:
    engines = list(range(100))
    node.hub.fork(engines)
    pids = node.pids()
    for engine in engines:
        node.hub.send(engine, os.getpid, ())
    node.hub.wait(lambda: len(node.hub.results) == 100)
    began_at = time.monotonic()
    node.hub.tell_node(EndNode())
    assert node.process.wait(10) == 0
    assert time.monotonic() - began_at < 3
    assert not any(is_alive(pid) for pid in pids)


def test_engines_die_with_their_node(node: NodeProcess) -> None:
    node.hub.fork([0, 1, 2])
    node.process.kill()
    wait_for(lambda: not any(is_alive(pid) for pid in node.pids()))


def test_a_signal_that_ends_the_node_ends_its_engines(node: NodeProcess) -> None:
    node.hub.fork([0])
    node.process.send_signal(signal.SIGINT)
    assert node.hub.call(0, len, "a") == 1
    node.process.terminate()
    assert node.process.wait(10) == 0
    wait_for(lambda: not any(is_alive(pid) for pid in node.pids()))


def value_when(path: str, value: int) -> int:
    """The value, when there is such a file; that it has begun is told by another one."""
    Path(f"{path} {value}").touch()
    while not Path(path).exists():
        time.sleep(0.01)
    return value


def test_a_hub_that_vanishes_and_comes_back_finds_everything(node: NodeProcess, tmp_path: Path) -> None:
    go_on = str(tmp_path / "go on")
    node.hub.fork([0, 1, 2])
    finished = node.hub.send(0, len, ("abc",))
    node.hub.value(finished[0])
    running, waiting = node.hub.send(1, value_when, (go_on, 4), (go_on, 5))
    dying = node.hub.send(2, value_when, (go_on, 6))
    wait_for(lambda: Path(f"{go_on} 4").exists() and Path(f"{go_on} 6").exists())
    first_hub, pids = node.hub, node.pids()
    first_hub.close()
    os.kill(pids[2], signal.SIGKILL)
    time.sleep(0.1)
    node.hub = FakeHub(node.address)
    node.hub.wait(lambda: node.hub.node is not None and set(node.hub.hellos) == {0, 1})
    assert node.hub.node_hello is not None
    assert [live.pid for live in node.hub.node_hello.engines] == pids[:2]
    assert node.hub.node_hello.ended == {2: -signal.SIGKILL}
    assert node.hub.hellos[0].redelivers == 1
    assert node.hub.hellos[1].holds == [running, waiting]
    Path(go_on).touch()
    assert [node.hub.value(task) for task in (finished[0], running, waiting)] == [3, 4, 5]
    node.hub.wait(lambda: 2 in node.hub.exits)
    assert dying[0] not in node.hub.results
    node.hub._tasks = first_hub._tasks
    assert node.hub.call(0, len, "abcd") == 4


def test_nothing_is_left_when_nobody_comes_back(short_lease: NodeProcess) -> None:
    short_lease.hub.fork([0, 1])
    pids = short_lease.pids()
    short_lease.hub.close()
    assert short_lease.process.wait(10) == 0
    assert not any(is_alive(pid) for pid in pids)
    assert not short_lease.directory.exists()


def test_a_directory_that_is_gone_ends_the_node(node: NodeProcess) -> None:
    node.hub.fork([0])
    node.directory.rename(node.directory.with_suffix(".gone"))
    node.hub.close()
    assert node.process.wait(10) == 0
    node.directory.with_suffix(".gone").rename(node.directory)


def begin_and_sleep(path: str) -> None:
    Path(path).touch()
    time.sleep(60)


def test_an_interrupt_of_a_blocked_engine(node: NodeProcess, tmp_path: Path) -> None:
    node.hub.fork([0])
    (task,) = node.hub.send(0, begin_and_sleep, (str(tmp_path / "begun"),))
    wait_for((tmp_path / "begun").exists)
    node.hub.control(0, Interrupt(task=task))
    with pytest.raises(KeyboardInterrupt):
        node.hub.value(task)
    assert node.hub.results[task].outcome is Outcome.CANCELLED


def test_idle_engines_share_their_memory(node: NodeProcess) -> None:
    node.hub.fork(range(32))
    node.hub.settle(0.2)
    shares = []
    for pid in node.pids():
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        shares.append(next(int(line.split()[1]) for line in lines if line.startswith("Pss:")))
    assert sum(shares) / len(shares) < 5000  # kB; 32 engines have their node's part to bear as well


def test_a_directory_without_a_cluster_is_an_error(tmp_path: Path) -> None:
    program = "import pathlib, sys; from fibernb.engine import node; node.main(pathlib.Path(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "ConfigError" in done.stderr
