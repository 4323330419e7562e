"""The lists of what passes, the page that says what is left out, and CPython's tests agree."""

from __future__ import annotations

import fnmatch

import pytest

from tests.cpython import lists
from tests.cpython.adapter import MissingSuite
from tests.cpython.lists import SUITES, Suite
from tests.cpython.runner import grouped, names_of

VERSIONS = ("3.11", "3.12", "3.13")


@pytest.fixture(params=list(SUITES.values()), ids=list(SUITES))
def suite(request: pytest.FixtureRequest) -> Suite:
    found = request.param
    assert isinstance(found, Suite)
    return found


def names(suite: Suite) -> list[str]:
    """The tests of a suite; none where this interpreter comes without it."""
    try:
        return names_of(suite.module)
    except MissingSuite:
        return []


def test_enough_passes() -> None:
    for version in VERSIONS:
        assert len(lists.passes(SUITES["multiprocessing"], version)) >= 215


def test_what_passes_is_not_left_out(suite: Suite) -> None:
    for version in VERSIONS:
        assert {test: suite.reason(test) for test in lists.passes(suite, version) if suite.reason(test)} == {}


def test_every_row_leaves_something_out_and_says_why(suite: Suite) -> None:
    known = names(suite)
    assert suite.exclusions()
    for row in suite.exclusions():
        assert len(row.reason.split()) >= 3
        if known and (lists.VERSION >= "3.13" or not row.reason.startswith("from 3.13 on")):
            assert fnmatch.filter(known, row.pattern), row.pattern


def test_groups_hold_every_test_once_and_no_class_is_torn_apart() -> None:
    tests = [f"Class{number}.test_{letter}" for number in range(30) for letter in "abc"]
    groups = grouped(tests)
    assert sorted(test for group in groups for test in group) == sorted(tests)
    homes = [{test.partition(".")[0] for test in group} for group in groups]
    assert all(not (one & other) for i, one in enumerate(homes) for other in homes[:i])
