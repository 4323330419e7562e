import pytest

from fibernb.core.functions import Function, Functions
from fibernb.core.settings import CoreSettings

SETTINGS = CoreSettings()


def measured(*run_s: float) -> Function:
    function = Function(b"f", b"code", "f")
    for each in run_s:
        function.measured(each)
    return function


@pytest.mark.parametrize(
    ("run_s", "calls"), [(1e-7, 512), (5e-3 / 512, 512), (1e-4, 50), (1e-3, 5), (4e-3, 1), (0.2, 1), (0.0, 512)]
)
def test_a_batch_holds_a_few_milliseconds_of_work(run_s: float, calls: int) -> None:
    assert measured(run_s).batch_calls(SETTINGS) == calls


def test_unknown_run_time_means_one_by_one() -> None:
    assert measured().batch_calls(SETTINGS) == 1
    assert not measured().may_queue_behind(SETTINGS)


def test_nothing_queues_behind_long_calls() -> None:
    assert measured(0.05).may_queue_behind(SETTINGS)
    assert not measured(0.1).may_queue_behind(SETTINGS)


def test_bad_news_are_believed_faster() -> None:
    assert measured(0.1, 0.2).run_s == pytest.approx(0.15)
    assert measured(0.2, 0.1).run_s == pytest.approx(0.18)


def test_a_function_goes_with_its_last_user() -> None:
    functions = Functions()
    first = functions.define(b"f", b"code", "f")
    first.users += 2
    assert functions.define(b"f", b"code", "f") is first
    functions.drop(b"f")
    assert functions.by_digest == {b"f": first}
    functions.drop(b"f")
    assert functions.by_digest == {}
