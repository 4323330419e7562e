"""What becomes of tests that pass, fail, hang, or end their process, when a runner runs them."""

from __future__ import annotations

import os
import signal
import time
import unittest

from tests.cpython.runner import run

HERE = "tests.cpython.test_group"
TIMEOUT_S = 6.0


class Sample(unittest.TestCase):
    """Run by the tests below, in groups of their own."""

    __test__ = False

    def test_a_passes(self) -> None:
        pass

    def test_b_fails(self) -> None:
        with self.subTest(number=1):
            assert sum([1]) == 2

    def test_c_hangs(self) -> None:
        time.sleep(60)

    def test_d_skips(self) -> None:
        self.skipTest("not here")

    def test_e_ends_its_process(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def test_f_passes(self) -> None:
        pass


class Broken(unittest.TestCase):
    __test__ = False

    @classmethod
    def setUpClass(cls) -> None:
        raise RuntimeError("no luck")

    def test_never_runs(self) -> None:
        raise AssertionError


def test_each_test_gets_its_own_verdict() -> None:
    names = [f"Sample.{name}" for name in dir(Sample) if name.startswith("test_")]
    outcomes = {o.test: o for o in run(HERE, names, jobs=2, timeout_s=TIMEOUT_S)}
    assert {test.removeprefix("Sample.test_"): outcome.outcome for test, outcome in outcomes.items()} == {
        "a_passes": "passed",
        "b_fails": "failed",
        "c_hangs": "failed",
        "d_skips": "skipped",
        "e_ends_its_process": "failed",
        "f_passes": "passed",
    }
    assert "in test_b_fails" in outcomes["Sample.test_b_fails"].detail
    assert "test_c_hangs" in outcomes["Sample.test_c_hangs"].detail, "the stacks are shown"


def test_a_fixture_that_fails_fails_its_tests() -> None:
    (outcome,) = run(HERE, ["Broken.test_never_runs"], jobs=1, timeout_s=TIMEOUT_S)
    assert outcome.outcome == "failed"
    assert "no luck" in outcome.detail


def test_a_group_that_cannot_be_imported_has_failed() -> None:
    (outcome,) = run("tests.cpython.no_such_module", ["Sample.test_a_passes"], jobs=1, timeout_s=TIMEOUT_S)
    assert outcome.outcome == "failed"
    assert "no_such_module" in outcome.detail
