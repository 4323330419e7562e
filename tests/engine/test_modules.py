"""Modules of the user's own, edited while an engine has them."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

import fibernb
from fibernb.engine.modules import LocalModules, source_of

numbers = itertools.count()


class Edited:
    """A module whose source the test writes."""

    def __init__(self, directory: Path) -> None:
        self.name = f"edited_by_a_test_{next(numbers)}"
        self.path = directory / f"{self.name}.py"

    def write(self, source: str) -> None:
        self.path.write_text(source)
        os.utime(self.path, ns=(10**18, 10**18 + next(numbers)))  # all edits within a second

    def load(self) -> ModuleType:
        importlib.invalidate_caches()
        return importlib.import_module(self.name)


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edited]:
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Edited(tmp_path)
    yield made
    sys.modules.pop(made.name, None)


def test_what_changes_is_loaded_again(edited: Edited) -> None:
    edited.write("def f(): return 1\nclass C:\n    def m(self): return 1\n")
    module = edited.load()
    f, c = module.f, module.C()
    modules = LocalModules()
    assert modules.refresh() == []
    edited.write("def f(): return 2\nclass C:\n    def m(self): return 2\n")
    assert modules.refresh() == [edited.name]
    assert (module.f(), f(), c.m()) == (2, 2, 2)
    assert modules.refresh() == []
    edited.write("def f(): return 33\ndef g(): return 3\n")
    modules.refresh()
    assert (f(), module.g()) == (33, 3)


def test_a_mistake_is_told_until_it_is_mended(edited: Edited) -> None:
    edited.write("x = 1\n")
    module = edited.load()
    modules = LocalModules()
    modules.refresh()
    edited.write("x = = 2\n")
    for _ in range(2):
        with pytest.raises(SyntaxError):
            modules.refresh()
    edited.write("x = 22\n")
    modules.refresh()
    assert module.x == 22


def test_files_and_modules_that_have_gone(edited: Edited) -> None:
    edited.write("x = 1\n")
    module = edited.load()
    modules = LocalModules()
    modules.refresh()
    edited.path.unlink()
    assert modules.refresh() == []
    edited.write("x = 2\n")
    del sys.modules[edited.name]
    modules.refresh()
    assert module.x == 1


def test_only_the_users_own(edited: Edited) -> None:
    edited.write("x = 1\n")
    assert source_of(edited.load()) == str(edited.path)
    for module in (json, msgspec, fibernb, sys, ModuleType("made"), object()):
        assert source_of(module) is None
