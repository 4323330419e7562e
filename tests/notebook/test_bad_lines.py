"""Whatever stands behind a magic, what comes back is a value, or an error of ours that says what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fibernb.errors import FibernbError
from fibernb.notebook import request
from fibernb.notebook.arguments import HelpAsked
from fibernb.notebook.commands import CELL, VERBS
from tests.notebook.conftest import Notebook
from tests.notebook.fake_cluster import FakeCluster, FakeClusters

OPTIONS = sorted({option for command in [*VERBS.values(), CELL] for option in command.options})
WORDS = st.one_of(
    st.sampled_from(OPTIONS),
    st.sampled_from(["0", "-1", "1:2", "::", "::0", "!0", "!", ",", "0,,1", "99999999999999999999", "1e999", "nan"]),
    st.sampled_from(["x", "x=", "=x", "a.b", "None", "''", '"', "\\", "#", "é", "\u0661", "$x", "{x}"]),
    st.sampled_from(["lease_s=", "lease_s=nan", "progress=perhaps", "name=/", "off", "4:2", "extra", "extra 2"]),
    st.text(max_size=5),
)
NOT_FAKED = {"debug"}
"""Verbs that need more of an engine than there is here."""


@pytest.fixture
def fiber(notebook: Notebook, clusters: FakeClusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``%fiber``, where nothing that it does matters."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(FakeCluster, "directory", tmp_path / "gone", raising=False)  # so that no log is followed
    clusters.cluster = FakeCluster(3)
    return notebook.shell.find_line_magic("fiber")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(verb=st.sampled_from(sorted(VERBS.keys() - NOT_FAKED)), words=st.lists(WORDS, max_size=4))
@example(verb="scale", words=["99999999999999999999"])
@example(verb="scale", words=["4", "--timeout", "nan"])
@example(verb="autoscale", words=["0:99999999999999999999"])
@example(verb="start", words=["-n", "-1"])
@example(verb="log", words=["-n", "1e3"])
@example(verb="log", words=["extra", "0"])
@example(verb="timeline", words=["\0"])
@example(verb="timeline", words=["~nobody-of-that-name/x"])
@example(verb="timeline", words=["."])
@example(verb="config", words=["lease_s=nan"])
@example(verb="attach", words=["\0"])
def test_any_words(fiber: Any, clusters: FakeClusters, verb: str, words: list[str]) -> None:
    clusters.cluster = FakeCluster(3)
    assert said(lambda: fiber(" ".join([verb, *words])))


@settings(max_examples=300)
@given(words=st.lists(WORDS, max_size=4))
def test_any_options_of_a_cell(words: list[str]) -> None:
    assert said(lambda: request.parse(" ".join(words)))


def said(call: Callable[[], object]) -> str:
    """What a call gives, or the text of its error; errors that nobody should see are not caught."""
    try:
        return repr(call())
    except (FibernbError, HelpAsked, NameError) as error:
        return str(error)
