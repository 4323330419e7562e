import signal
import threading
from collections.abc import Iterator

import pytest

from fibernb.notebook.interruptible import interruptible


def ignoring(_number: int, _frame: object) -> None:
    """Stands for the kernel's handler of a cell that awaits."""


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    signal.signal(signal.SIGINT, ignoring)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_one_interrupt_is_heard_and_those_that_follow_it_are_not() -> None:
    def work() -> None:
        with interruptible():
            try:
                press()
            finally:
                press()
                press()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert signal.getsignal(signal.SIGINT) is ignoring


def test_without_an_interrupt_nothing_has_changed_afterwards() -> None:
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is not ignoring
    assert signal.getsignal(signal.SIGINT) is ignoring


@pytest.mark.parametrize("own", [signal.default_int_handler, signal.SIG_IGN, signal.SIG_DFL])
def test_where_nobody_holds_interrupts_back_there_is_nothing_to_do(own: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, own)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is own


def test_other_threads_are_left_alone() -> None:
    seen: list[object] = []

    def look() -> None:
        with interruptible():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [ignoring]
