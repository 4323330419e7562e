"""Unloading the extension leaves a shell, and its kernel, as they were."""

from __future__ import annotations

import builtins
import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from fibernb.client import current
from fibernb.client.inbox import print_said
from fibernb.notebook import extension
from fibernb.notebook.clusters import Clusters
from tests.notebook.fake_cluster import FakeSession
from tests.notebook.kernel import running_kernel


def everything(shell: Any) -> dict[str, object]:
    """What an extension could have put into a shell, into its kernel, and into this process."""
    transformers = shell.input_transformer_manager
    kernel = getattr(shell, "kernel", None)
    formatters = shell.display_formatter.formatters
    return {
        "attributes": {name: value for name, value in vars(shell).items() if callable(value)},
        "cleanup": list(transformers.cleanup_transforms),
        "completion": [*shell.Completer.custom_matchers, *shell.Completer.matchers],
        "custom exceptions": shell.custom_exceptions,
        "events": {name: list(callbacks) for name, callbacks in shell.events.callbacks.items()},
        "formatters": {
            kind: [dict(table) for table in (one.type_printers, one.singleton_printers, one.deferred_printers)]
            for kind, one in formatters.items()
        },
        "hidden names": sorted(name for name in shell.user_ns_hidden if not re.fullmatch(r"_i?\d+", name)),
        "kernel": {} if kernel is None else {name: one for name, one in vars(kernel).items() if callable(one)},
        "lines": list(transformers.line_transforms),
        "magics": {kind: dict(magics) for kind, magics in shell.magics_manager.magics.items()},
        "process": [sys.excepthook, sys.displayhook, sys.breakpointhook, sys.stdout, sys.stderr],
        "builtins": sorted(vars(builtins)),
        "registry": dict(shell.magics_manager.registry),
        "session": [list(current.on_use), current.keeps_errors],
        "syntax": list(shell.ast_transformers),
        "targets": dict(kernel.comm_manager.targets) if kernel is not None else {},
        "tokens": list(transformers.token_transformers),
        "traceback": shell.showtraceback,
    }


def test_a_shell_is_as_it_was(shell: InteractiveShell) -> None:
    before = everything(shell)
    threads = set(threading.enumerate())
    for _ in range(2):
        extension.load(shell)
        extension.load(shell)
        loaded = everything(shell)
        assert {name for name in before if before[name] != loaded[name]} >= {"cleanup", "events", "magics", "tokens"}
        shell.run_cell("x = 1\n%fiber help")
        extension.unload(shell)
        assert everything(shell) == before
        extension.unload(shell)
    assert set(threading.enumerate()) <= threads


def test_magics_of_others_come_back(shell: InteractiveShell) -> None:
    for kind, name in (("line", "fiber"), ("cell", "parallel")):
        shell.magics_manager.magics[kind][name] = print
    before = everything(shell)
    extension.load(shell)
    assert everything(shell)["magics"] != before["magics"]
    extension.unload(shell)
    assert everything(shell) == before


def test_a_traceback_hook_of_others_stays(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    extension.load(shell)
    monkeypatch.setattr(shell, "showtraceback", print)
    extension.unload(shell)
    assert shell.showtraceback is print


def test_output_of_tasks_goes_where_it_goes_without_a_notebook(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = FakeSession()
    session.inbox = SimpleNamespace(status=None, on_said=print_said)
    monkeypatch.setattr(current, "session", session)
    extension.load(shell)
    shell.events.trigger("pre_run_cell", SimpleNamespace())
    assert session.inbox.on_said is not print_said
    extension.unload(shell)
    assert session.inbox.on_said is print_said


def test_a_kernel_is_as_it_was(tmp_path: Path) -> None:
    with running_kernel(tmp_path, FIBERNB_PROGRESS="0") as kernel:
        kernel.run("%unload_ext fibernb\nfrom tests.notebook.test_unloading import everything\nimport fibernb as fnb")
        kernel.run("before = everything(get_ipython())")
        kernel.run("%load_ext fibernb")
        kernel.run("%fiber scale 2\n%fiber")
        kernel.run("%%parallel -a\nimport time\ntime.sleep(0.5)")
        kernel.fail("%%parallel\n1 / 0")
        kernel.run("%unload_ext fibernb")
        kernel.run("after = everything(get_ipython())")
        assert kernel.run("[name for name in before if before[name] != after[name]]").result == "[]"
        assert kernel.fail("%%parallel\n1").status == "error"
        kernel.run("f = fnb.remote(lambda: print('said by a task'))")
        assert "said by a task" in kernel.run("fnb.get(f.remote())").stream()
        kernel.run("%load_ext fibernb")
        kernel.run("%reload_ext fibernb")
        assert kernel.run("%%parallel\nrank").result == "[0] 0\n[1] 1"
        kernel.run("%fiber stop")


def test_a_cluster_outlives_the_extension(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[Clusters] = []
    monkeypatch.setattr(Clusters, "forget", forgotten.append)
    extension.load(shell)
    extension.unload(shell)
    assert not forgotten
