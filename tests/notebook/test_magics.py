"""The magics in a real shell, on a cluster that is faked."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter

from fibernb import config
from fibernb.client import code
from fibernb.client.cells import CellResult
from fibernb.errors import CellTimeout, ConfigError, NotConnected, SerializationError, TaskCancelled
from fibernb.hub.connection import Connection
from fibernb.notebook.extension import RestartHook
from fibernb.notebook.snapshot import without_escapes
from fibernb.notebook.usage import UsageError
from tests.notebook.conftest import Notebook
from tests.notebook.fake_cluster import FakeCluster, FakeClusters, FakeHandle


@pytest.fixture
def cluster(clusters: FakeClusters) -> FakeCluster:
    clusters.cluster = FakeCluster(4)
    return clusters.cluster


# ---- %%parallel ------------------------------------------------------------------------------------------


def test_values_and_output(notebook: Notebook, cluster: FakeCluster) -> None:
    result = notebook.run("%%parallel --into squares\nprint('ready')\nif rank: print(rank)\nrank ** 2")
    assert isinstance(result, CellResult)
    assert result == [0, 1, 4, 9]
    assert notebook.out.splitlines()[:4] == ["[0-3] ready", "[1] 1", "[2] 2", "[3] 3"]
    assert notebook.out.splitlines()[4:] == ["Out[0]: ", "[0] 0", "[1] 1", "[2] 4", "[3] 9"]
    assert notebook.shell.user_ns["squares"] is result


def test_nothing_when_every_rank_gave_none(notebook: Notebook, cluster: FakeCluster) -> None:
    assert notebook.run("%%parallel --into y\nx = 1") is None
    assert notebook.shell.user_ns["y"] == [None] * 4
    assert notebook.out == ""


@pytest.mark.parametrize(
    ("option", "lines"),
    [
        ("", ["[0-3] a"]),
        ("--output rank", ["[0] a", "[1] a", "[2] a", "[3] a"]),
        ("--output first", ["[0] a"]),
        ("--output none", []),
        ("-w 3,1", ["[1,3] a"]),
        ("-w !0", ["[1-3] a"]),
    ],
)
def test_output_and_ranks(notebook: Notebook, cluster: FakeCluster, option: str, lines: list[str]) -> None:
    notebook.run(f"%%parallel {option}\nprint('a')")
    assert notebook.out.splitlines() == lines


def test_values_come_in_rank_order(notebook: Notebook, cluster: FakeCluster) -> None:
    assert notebook.run("%%parallel -w 3,0\nrank, ranks") == [(0, (0, 3)), (3, (0, 3))]


def test_expression(notebook: Notebook, cluster: FakeCluster) -> None:
    assert notebook.run("k = 10\nvalues = %parallel {'r': rank}['r'] * k\nvalues") == [0, 10, 20, 30]
    with pytest.raises(UsageError, match="wants an expression"):
        notebook.run("%parallel")
    notebook.run("%parallel --help")
    assert "any Python expression" in notebook.out
    assert "%%parallel -w 0:4" in notebook.out


def test_names_go_out_when_their_content_changed(notebook: Notebook, cluster: FakeCluster) -> None:
    notebook.run("xs = [1]\nunused = 2\nrank = 'mine'")
    assert notebook.run("%%parallel -w 0:2\nlen(xs) + rank") == [1, 2]
    assert cluster.pushes == [(0, ["xs"]), (1, ["xs"])]
    notebook.run("%%parallel -w 0:2\nxs.append(5)\nxs")
    assert len(cluster.pushes) == 2
    assert notebook.run("xs.append(2)") is None
    assert notebook.run("%%parallel -w 0\nxs") == [[1, 2]]


def test_values_of_engines_win_over_unchanged_ones(notebook: Notebook, cluster: FakeCluster) -> None:
    notebook.run("x = 1")
    notebook.run("%%parallel\nif rank == 0: x = 'own'")
    assert notebook.run("%%parallel\nx") == ["own", 1, 1, 1]
    notebook.run("%%parallel\nx = rank")
    assert notebook.run("%%parallel\nx") == [0, 1, 2, 3]
    notebook.run("x = 2")
    assert notebook.run("%%parallel\nx") == [2, 2, 2, 2]


def test_push_options(notebook: Notebook, cluster: FakeCluster) -> None:
    notebook.run("a = b = c = 1\nrank = 'pushed'")
    notebook.run("%%parallel --push a,b rank\nc")
    assert cluster.pushes[0][1] == ["a", "b", "c", "rank"]
    assert notebook.run("%%parallel --push rank\nrank") == ["pushed"] * 4
    notebook.run("d = 1")
    with pytest.raises(NameError):
        notebook.run("%%parallel --no-push\nd")
    with pytest.raises(UsageError, match="no variable 'nothing'"):
        notebook.run("%%parallel --push nothing\n1")


def test_what_cannot_be_pickled_is_an_error_only_when_used(notebook: Notebook, cluster: FakeCluster) -> None:
    notebook.shell.push({"box": {"lock": threading.Lock()}})
    assert notebook.run("%%parallel\nif False: box\n1") == [1] * 4
    with pytest.raises(SerializationError, match=r"'box' could not be sent from the notebook: box\['lock'\]"):
        notebook.run("%%parallel\nbox['lock']")


def test_errors_keep_their_type(notebook: Notebook, cluster: FakeCluster) -> None:
    caught = notebook.run(
        "try:\n    get_ipython().run_cell_magic('parallel', '', 'raise ValueError(1)')\n"
        "except ValueError as e:\n    caught = e\ncaught"
    )
    assert caught.__notes__ == ["on ranks 0-3 of 4"]
    with pytest.raises(ValueError, match="bad"):
        notebook.run("%%parallel\nprint('before')\nraise ValueError('bad')")
    assert notebook.out.startswith("[0-3] before\n")
    assert notebook.out.count("ValueError: bad") == 1
    assert "parallel.py" not in notebook.out


def test_errors_of_several_kinds(notebook: Notebook, cluster: FakeCluster) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        notebook.run("%%parallel\n1 / rank if rank < 2 else {}['k']")
    assert [type(error) for error in raised.value.exceptions] == [ZeroDivisionError, KeyError]


def test_a_body_that_is_not_python(notebook: Notebook, cluster: FakeCluster) -> None:
    with pytest.raises(SyntaxError) as raised:
        notebook.run("%%parallel\nx = 1\nfor")
    assert raised.value.lineno == 3
    assert cluster.handle is None
    assert "parallel.py" not in notebook.out + notebook.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--nope", "'--nope' is not understood"),
        ("--wrok 3", "'--wrok'"),
        ("-w 9", "there is no rank 9"),
        ("-w 2:2", "chooses none"),
        ("-w x", "'x' names no ranks"),
        ("-w 0 2", "'2' is not understood: ranks are written without blanks, such as -w 0,2"),
        ("--retries 2", "belong to --each"),
        ("--each x=[1] -w 0", "-w cannot say where"),
        ("--each x", "NAME=EXPRESSION"),
        ("--push a --no-push", "contradict"),
    ],
)
def test_bad_lines_run_nothing(notebook: Notebook, cluster: FakeCluster, line: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        notebook.run(f"%%parallel {line}\n1")
    assert message in str(raised.value)
    assert "notebook/parallel.py" not in notebook.out
    assert cluster.handle is None


@pytest.mark.parametrize("expression", ["nope", "[1 / 0]", "(f(x) for x in [1])", "g()"])
def test_errors_of_items_show_the_user_only_their_own_lines(
    notebook: Notebook, cluster: FakeCluster, expression: str
) -> None:
    notebook.run("def f(x):\n    return {}[x]\ndef g():\n    yield f(1)")
    with pytest.raises((NameError, ZeroDivisionError, KeyError)) as raised:
        notebook.run(f"%%parallel --each x={expression}\nx")
    assert raised.typename in notebook.out
    shown = without_escapes(notebook.out)
    assert ("yield f(1)" if expression == "g()" else expression) in shown
    assert "fibernb/notebook" not in shown
    assert ("return {}[x]" in shown) == (raised.type is KeyError)
    with pytest.raises(UsageError, match="--each x=5 gives int, not items"):
        notebook.run("%%parallel --each x=5\nx")


def test_lines_belong_to_the_cell_that_ran(notebook: Notebook, cluster: FakeCluster) -> None:
    for _ in range(2):
        result = notebook.shell.run_cell("%%parallel\nfor", store_history=True)
        assert isinstance(result.error_in_exec, SyntaxError)
        assert result.error_in_exec.filename == f"In[{result.execution_count}]"


def test_no_engines(notebook: Notebook, clusters: FakeClusters) -> None:
    clusters.cluster = FakeCluster(0)
    with pytest.raises(ConfigError, match="no engines: `%fiber scale 4`"):
        notebook.run("%%parallel\n1")
    clusters.cluster.maximum = 3
    with pytest.raises(ConfigError, match="autoscaling lets idle ones go"):
        notebook.run("%%parallel\n1")


def test_help(notebook: Notebook) -> None:
    for source in ("%%parallel --help\n1", "%%parallel --help", "%%parallel -w 0 -h\n\n"):
        notebook.run(source)
        assert "examples:" in notebook.out
    assert notebook.run("%%parallel\n'--help'") == ["--help"] * 2


# ---- stopping --------------------------------------------------------------------------------------------


def interrupt_once(cluster: FakeCluster, times: int = 1) -> None:
    left = iter([True] * times)

    def wait() -> None:
        if cluster.handle is not None and next(left, False):
            raise KeyboardInterrupt

    cluster.session.on_wait = wait


def test_interrupt_cancels_and_reaches_the_user(notebook: Notebook, cluster: FakeCluster) -> None:
    cluster.pending = True
    interrupt_once(cluster)
    with pytest.raises(KeyboardInterrupt):
        notebook.run("%%parallel\n1")
    assert cluster.handle is not None
    assert cluster.handle.cancels == [False]
    assert "waiting.py" not in notebook.out
    cluster.pending = False
    assert notebook.run("%%parallel\n1") == [1] * 4


def test_a_second_interrupt_replaces_engines(
    notebook: Notebook, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancel(self: FakeHandle, force: bool = False) -> None:
        self.cancels.append(force)
        if force:
            self.finish()

    monkeypatch.setattr(FakeHandle, "cancel", cancel)
    cluster.pending = True
    interrupt_once(cluster, 2)
    with pytest.raises(KeyboardInterrupt):
        notebook.run("%%parallel\n1")
    assert cluster.handle is not None
    assert cluster.handle.cancels == [False, True]


def test_timeout(notebook: Notebook, cluster: FakeCluster) -> None:
    cluster.pending = True
    with pytest.raises(CellTimeout, match=r"longer than 0\.05 s"):
        notebook.run("%%parallel --timeout 0.05\nprint('a')")
    assert notebook.out.startswith("[0-3] a\n")
    assert cluster.handle is not None
    assert cluster.handle.cancels == [False]


def test_background(notebook: Notebook, cluster: FakeCluster) -> None:
    cluster.pending = True
    handle = notebook.run("%%parallel -a h --into v\nrank")
    assert isinstance(handle, FakeHandle)
    assert handle is notebook.shell.user_ns["h"]
    assert not handle.done()
    handle.finish()
    for thread in threading.enumerate():
        if thread.name == "fibernb-background-cell":
            thread.join(5)
    assert notebook.shell.user_ns["v"] == [0, 1, 2, 3]


def test_cancelling_background_cells(notebook: Notebook, cluster: FakeCluster) -> None:
    cluster.pending = True
    handle = notebook.run("%%parallel -a\nrank")
    notebook.run("%fiber cancel")
    assert "1 background cell cancelled" in notebook.out
    with pytest.raises(TaskCancelled):
        handle.result()
    notebook.run("%fiber cancel")
    assert "no cell runs" in notebook.out


# ---- %fiber ----------------------------------------------------------------------------------------------


def test_status(notebook: Notebook, clusters: FakeClusters, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no cluster yet" in repr(notebook.run("%fiber"))
    others = [Connection(name=name, address="", key="", pid=7) for name in ("left", "other")]
    with monkeypatch.context() as patch:
        patch.setattr(clusters, "running", lambda: others)
        assert "running: left, other (%fiber attach" in repr(notebook.run("%fiber"))
    clusters.current()
    page = notebook.run("%fiber status")
    assert "engines  2 seats, 2 ready" in notebook.out
    assert "2 engines ready" in page._repr_html_()


def test_scale(notebook: Notebook, clusters: FakeClusters) -> None:
    notebook.run("%fiber scale 4 --min 2 --timeout 9")
    assert notebook.out == "4 engines ready\n"
    assert clusters.started == [(4, None, None, {})]
    cluster = clusters.current()
    for change, seats in (("+2", 6), ("-1", 5), ("-9", 0), ("1", 1), ("1", 1)):
        notebook.run(f"n = '{change}'")
        notebook.run("%fiber scale $n")
        assert cluster.size == seats
    assert notebook.out == "1 engine ready\n"
    assert cluster.calls[0] == ("scale", 4, 2, 9.0)
    with pytest.raises(UsageError, match="wants a number of engines"):
        notebook.run("%fiber scale many")


def test_autoscale(notebook: Notebook, cluster: FakeCluster) -> None:
    notebook.run("%fiber autoscale 0:16 --idle 5")
    notebook.run("%fiber autoscale off")
    assert cluster.calls == [("autoscale", 0, 16, 5.0), ("autoscale", 0, None, 60.0)]
    for bounds in ("5", "9:3", "0:0"):
        with pytest.raises(UsageError, match="wants MIN:MAX"):
            notebook.run(f"%fiber autoscale {bounds}")


def test_start_stop_attach_detach_list(notebook: Notebook, clusters: FakeClusters) -> None:
    notebook.run("%fiber stop")
    assert "no cluster to stop" in notebook.out
    assert "no cluster of yours" in repr(notebook.run("%fiber list"))
    with pytest.raises(NotConnected):
        notebook.run("%fiber detach")
    notebook.run("%fiber start -n 3 --name blue -o lease_s=600 progress=false")
    assert notebook.out == "cluster fake: 3 engines ready\n"
    assert clusters.started == [(3, None, "blue", {"lease_s": 600.0, "progress": False})]
    assert "this notebook's" in repr(notebook.run("%fiber list"))
    notebook.run("%fiber detach")
    assert "%fiber attach fake" in notebook.out
    notebook.run("%fiber attach")
    assert "attached to cluster fake: 2 engines ready" in notebook.out
    notebook.run("%fiber stop")
    assert not clusters.in_use()
    with pytest.raises(ConfigError, match="no key 'nothing'"):
        notebook.run("%fiber start -o nothing=1")
    with pytest.raises(ConfigError, match="write KEY=VALUE"):
        notebook.run("%fiber start -o nothing")


def test_ranks_of_verbs(notebook: Notebook, cluster: FakeCluster) -> None:
    notebook.run("%fiber restart 0,2")
    notebook.run("%fiber interrupt")
    assert cluster.calls == [("restart", [0, 2]), ("scale", 4, None, None), ("interrupt", [0, 1, 2, 3])]
    assert len(repr(notebook.run("%fiber ps 1:3")).splitlines()) == 3
    with pytest.raises(ConfigError, match="no rank 7"):
        notebook.run("%fiber ps 7")


def test_log(notebook: Notebook, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.directory = tmp_path  # type: ignore[attr-defined]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-1.log").write_text("".join(f"line {number}\n" for number in range(100)))
    notebook.run("%fiber log -n 2")
    assert notebook.out == "[1] line 98\n[1] line 99\n"
    notebook.run("%fiber log 1 -n 0")
    assert notebook.out == ""


def test_push_and_pull(notebook: Notebook, cluster: FakeCluster) -> None:
    notebook.run("a, b = 1, 2")
    notebook.run("%fiber push a b -w 0:2")
    notebook.run("%fiber push a -w 0")
    assert cluster.pushes == [(0, ["a", "b"]), (1, ["a", "b"]), (0, ["a"])]
    assert notebook.run("%fiber pull a --into many -w 0:2") == [1, 1]
    assert notebook.run("%fiber pull a b -w 0") is None
    values = notebook.shell.user_ns
    assert (values["many"], values["a"], values["b"]) == ([1, 1], [1], [2])
    with pytest.raises(UsageError, match="one variable"):
        notebook.run("%fiber pull a b --into c")
    with pytest.raises(UsageError, match="no variable 'q'"):
        notebook.run("%fiber push q")
    notebook.run("import threading\nc = [threading.Lock()]")
    with pytest.raises(SerializationError, match=r"c\[0\]"):
        notebook.run("%fiber push a c")
    assert len(cluster.pushes) == 3


def test_a_semicolon_keeps_values_that_have_a_name_from_being_shown(notebook: Notebook) -> None:
    assert notebook.run("%%parallel --into ys\nrank + 1; \n") is None
    assert notebook.shell.user_ns["ys"] == [1, 2]
    assert notebook.run("%%parallel --into vs\nv = 5;") is None
    assert notebook.shell.user_ns["vs"] == [None, None]


def test_scatter_and_gather(notebook: Notebook, cluster: FakeCluster) -> None:
    notebook.run("xs = list(range(10))")
    notebook.run("%fiber scatter xs")
    assert notebook.run("%%parallel\nxs") == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]
    notebook.run("%%parallel\nxs = [x * 2 for x in xs]")
    notebook.run("%fiber gather xs")
    assert notebook.shell.user_ns["xs"] == [x * 2 for x in range(10)]
    with pytest.raises(UsageError, match="no variable 'q'"):
        notebook.run("%fiber scatter q")
    with pytest.raises(UsageError, match="'n' is of type int, which has no parts"):
        notebook.run("n = 5\n%fiber scatter n")


def test_config(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIBERNB_LEASE_S", "60")
    notebook.run("%fiber config lease_s=7")
    lines = repr(notebook.run("%fiber config")).splitlines()
    assert ["lease_s", "7.0"] in [line.split()[:2] for line in lines]
    with pytest.raises(ConfigError):
        notebook.run("%fiber config lease_s=soon progress=true")
    assert repr(notebook.run("%fiber config lease_s")).splitlines() == [
        "setting  value  from                      accepts",
        "lease_s  7.0    variable FIBERNB_LEASE_S  a number of seconds, 0 or more",
    ]
    assert "lease_s  8.0" in repr(notebook.run("%fiber config lease_s=8 lease_s"))
    with pytest.raises(ConfigError, match="no setting 'lease'; did you mean 'lease_s'"):
        notebook.run("%fiber config lease")


def test_config_tells_what_it_has_set_and_from_when_that_counts(
    notebook: Notebook, clusters: FakeClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, text in {"LEASE_S": "60", "PROGRESS": "1", "STORE_DIR": "", "OUTPUT_LIMIT_LINES": "1000"}.items():
        monkeypatch.setenv(f"FIBERNB_{key}", text)
    notebook.run("%fiber config lease_s=7 progress=false output_limit_lines=1000")
    assert notebook.out.splitlines() == [
        "lease_s = 7.0 (was 60.0), from the next start of a cluster on",
        "progress = False (was True), from the next cell on",
        "output_limit_lines is 1000 already",
    ]
    clusters.cluster = FakeCluster(2)
    notebook.run("%fiber config store_dir=/big progress=true progress=false")
    keeps = f"{clusters.cluster.name} keeps what it has until %fiber stop"
    assert notebook.out.splitlines() == [
        f"store_dir = '/big' (was ''), for the next cluster: {keeps}",
        "progress is False already",
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("leases=1", "Did you mean 'lease_s'?"),
        ("transport=pigeon", "transport cannot be 'pigeon'. It accepts unix or zmq."),
        ("progress=maybe", "progress cannot be 'maybe'. It accepts true or false."),
        ("memory_fraction=2", "memory_fraction cannot be 2.0. It accepts a number from 0 to 1"),
        ("workers=many", "workers cannot be 'many'. It accepts a whole number of seats, 0 or more, or none."),
    ],
)
def test_config_says_what_would_have_been_right(notebook: Notebook, line: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        notebook.run(f"%fiber config {line}")


def test_config_tells_what_is_locked(notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fibernb.toml"
    path.write_text('lease_s = 30\nlocked = ["lease_s"]')
    monkeypatch.setattr(config, "SYSTEM_DIRECTORIES", (tmp_path,))
    assert f"locked by {path}" in repr(notebook.run("%fiber config"))


def test_mistyped_verbs(notebook: Notebook) -> None:
    with pytest.raises(UsageError, match="did you mean 'scale'"):
        notebook.run("%fiber scael 3")
    assert notebook.out == "\x1b[0;31mUsageError\x1b[0m: %fiber has no verb 'scael'; did you mean 'scale'?\n"
    notebook.run("%fiber --help")
    assert "autoscale" in notebook.out
    notebook.run("%fiber scale --help")
    assert "%fiber scale +4" in notebook.out


# ---- loading ---------------------------------------------------------------------------------------------


def test_every_cell_begins_an_epoch(notebook: Notebook) -> None:
    before = code.epoch
    notebook.run("1")
    assert code.epoch == before + 1


def test_completion(notebook: Notebook) -> None:
    with provisionalcompleter():
        completions = list(notebook.shell.Completer.completions("%fiber autos", 12))
    assert [completion.text for completion in completions] == ["autoscale"]


def test_restarts_are_noticed() -> None:
    class Kernel:
        def do_shutdown(self, restart: bool) -> str:
            return f"restart {restart}"

    kernel = Kernel()
    restarts: list[bool] = []
    hook = RestartHook(kernel, lambda: restarts.append(True))
    hook.install()
    assert kernel.do_shutdown(False) == "restart False"
    assert restarts == []
    assert kernel.do_shutdown(True) == "restart True"
    assert restarts == [True]
    hook.remove()
    assert vars(kernel) == {}
    RestartHook(None, lambda: None).install()
