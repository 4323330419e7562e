"""A Ray script in a notebook that has not loaded the extension: its first use of the cluster does."""

from __future__ import annotations

from tests.integration.conftest import Place

SHELL = """
import os, signal, threading, time
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

signal.signal(signal.SIGINT, signal.default_int_handler)
config = Config()
config.HistoryManager.enabled = False
config.InteractiveShell.colors = "nocolor"
shell = InteractiveShell.instance(config=config)

def cell(source):
    return shell.run_cell(source)
"""


def test_functions_follow_the_cells(place: Place) -> None:
    """Also those that were sent before the cluster was used for the first time, and what they read in the same cell."""
    done = place.run(
        SHELL
        + """
cell("import fibernb as ray\\n@ray.remote\\ndef product(x):\\n    return factor * helper(x)")
cell("factor = 2\\ndef helper(x):\\n    return x + 1\\nprint(ray.get(product.remote(1)))")
cell("factor = 3")
cell("print(ray.get(product.remote(1)))")
cell("def helper(x):\\n    return 0")
cell("print(ray.get(product.remote(1)))")
"""
    )
    assert (done.stdout, done.stderr) == ("4\n6\n0\n", "")


def test_an_interrupted_cell_stops_its_tasks(place: Place) -> None:
    """Though it is the very cell that started the cluster. The next one works."""
    done = place.run(
        SHELL
        + '''
def interrupt():
    while not os.path.exists("began"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
result = cell("""
import time
import fibernb as ray

@ray.remote(num_cpus=1)
def long():
    open("began", "w").close()
    time.sleep(300)

ray.init(num_cpus=1)
ref = long.remote()
ray.get(ref)
""")
assert isinstance(result.error_in_exec, KeyboardInterrupt), result
cell("""
try:
    ray.get(ref, timeout=60)
except ray.exceptions.TaskCancelledError as error:
    print("it was stopped")
""")
'''
    )
    assert done.stdout.endswith("it was stopped\n")


def test_errors_show_the_lines_of_the_user(place: Place) -> None:
    done = place.run(
        SHELL
        + '''
cell("""
import fibernb as ray

@ray.remote
def look_up(key):
    table = {}
    return table[key]

ray.get(look_up.remote("nothing"))
""")
'''
    )
    assert "return table[key]" in done.stdout
    assert "KeyError: 'nothing'" in done.stdout
    assert "fibernb/client" not in done.stdout, "internal frames are folded"


def test_what_was_unloaded_stays_so(place: Place) -> None:
    done = place.run(
        SHELL
        + """
cell("import fibernb as ray\\nray.init(num_cpus=1)")
print("fiber" in shell.magics_manager.magics["line"])
cell("%load_ext fibernb\\n%unload_ext fibernb\\nray.shutdown()\\nray.init(num_cpus=1)")
print("fiber" in shell.magics_manager.magics["line"])
"""
    )
    assert [line for line in done.stdout.splitlines() if line in ("True", "False")] == ["True", "False"]
