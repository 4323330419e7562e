"""Managers in plain scripts: types of the script go by value, and nothing is left when it ends, however it ends."""

from __future__ import annotations

from tests.integration.conftest import Place, wait_until

SCRIPT = """
    import os, signal, sys
    import fibernb.multiprocessing as multiprocessing
    from fibernb.multiprocessing.managers import BaseManager

    class Tally:
        def __init__(self):
            self.seen = []

        def add(self, item):
            self.seen.append(item)
            return len(self.seen)

    class Own(BaseManager):
        pass

    Own.register("Tally", Tally)

    class Item:
        pass

    def work(tally, found):
        found["tally"] = tally.add(Item())
        found["kind"] = Item()

    own = Own()
    own.start()
    manager = multiprocessing.Manager()
    found = manager.dict()
    worker = multiprocessing.Process(target=work, args=(own.Tally(), found))
    worker.start()
    worker.join()
    print(found["tally"], type(found["kind"]) is Item, worker.exitcode, flush=True)
"""
END = """
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_script_that_just_ends(place: Place) -> None:
    ended = place.run(SCRIPT + END, "end")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1 True 0\n", "")
    place.wait_empty()


def test_a_script_that_is_killed(place: Place) -> None:
    place.environment["FIBERNB_LEASE_S"] = "1"
    ended = place.run(SCRIPT + END, "kill")
    assert ended.stdout == "1 True 0\n"
    wait_until(lambda: not place.processes(), describe=place.leftovers)
    place.wait_empty()
