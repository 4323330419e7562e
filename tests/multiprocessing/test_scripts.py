"""Programs whose import was changed: as plain scripts, and under ``fibernb run``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.multiprocessing.conftest import Place, wait_until

PROGRAM = """
    import atexit, sys, time
    import fibernb.multiprocessing as multiprocessing
    from helper import doubled

    print("top of", __name__)
    FACTOR = 3

    class Worker(multiprocessing.Process):
        def __init__(self, number):
            super().__init__()
            self.number = number

        def run(self):
            time.sleep(0.05 * self.number)
            print("worker", doubled(self.number) * FACTOR, __name__)

    def stay():
        time.sleep(600)

    def main():
        atexit.register(print, "at exit")
        for number in range(3):
            Worker(number).start()
        multiprocessing.Process(target=stay, daemon=True).start()
        print("end of main", len(sys.argv))

    GUARD
"""
EXPECTED = ["at exit", "end of main 3", "top of __main__", *(f"worker {6 * number} __main__" for number in range(3))]
HELPER = "def doubled(x):\n    return 2 * x\n"


def command(place: Place, how: str, code: str, *arguments: str) -> list[str]:
    script = place.directory.parent / f"{place.directory.name}-scripts" / "script.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(textwrap.dedent(code))
    (script.parent / "helper.py").write_text(HELPER)
    before = ["-m", "fibernb", "run", "-n", "2"] if how == "fibernb run" else []
    return [sys.executable, *before, str(script), *arguments]


def run(place: Place, how: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(place, how, code, *arguments),
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.parametrize("how", ["python", "fibernb run"])
@pytest.mark.parametrize("guard", ["main()", 'if __name__ == "__main__":\n        main()'])
def test_children_are_waited_for_and_do_not_run_the_script_again(place: Place, how: str, guard: str) -> None:
    done = run(place, how, PROGRAM.replace("GUARD", guard), "an", "argument")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted(EXPECTED)
    place.wait_empty()


@pytest.mark.parametrize("how", ["python", "fibernb run"])
def test_the_exit_code_of_a_script_is_its_own(place: Place, how: str) -> None:
    code = """
        import sys
        import fibernb.multiprocessing as mp
        def work():
            print("done")
        mp.Process(target=work).start()
        sys.exit(5)
    """
    done = run(place, how, code)
    assert (done.returncode, done.stdout) == (5, "done\n")


@pytest.mark.parametrize("how", ["python", "fibernb run"])
def test_tracebacks_show_where_a_script_is_wherever_it_was_called(place: Place, how: str) -> None:
    code = """
        import fibernb.multiprocessing as mp
        def fail():
            raise ValueError("no such luck")
        print(__file__)
        process = mp.Process(target=fail)
        process.start()
        process.join()
        fail()
    """
    *call, script = command(place, how, code)
    done = subprocess.run(
        [*call, "script.py"],
        cwd=Path(script).parent,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, script + "\n")
    lines = [line for line in done.stderr.splitlines() if "script.py" in line]
    assert lines == [f'  File "{script}", line {line}' for line in ("4, in fail", "9, in <module>", "4, in fail")]


@pytest.mark.parametrize("how", ["python", "fibernb run"])
def test_ctrl_c_ends_the_processes_of_a_script(place: Place, how: str, tmp_path: Path) -> None:
    code = """
        import sys, time
        from pathlib import Path
        import fibernb.multiprocessing as mp
        def stay():
            try:
                Path(sys.argv[1], "begun").touch()
                time.sleep(600)
            except KeyboardInterrupt:
                print("interrupted")
        mp.Process(target=stay).start()
        time.sleep(600)
    """
    program = subprocess.Popen(
        command(place, how, code, str(tmp_path)),
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until((tmp_path / "begun").exists, 60)
    os.kill(program.pid, signal.SIGINT)
    out, err = program.communicate(timeout=60)
    assert out == "interrupted\n"
    assert program.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
    assert "interrupted" not in err
    place.wait_empty()
