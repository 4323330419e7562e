"""What is not to be interrupted in its middle."""

import os
import signal
import threading

import pytest

from fibernb.notebook.undisturbed import undisturbed


def test_an_interrupt_takes_effect_afterwards() -> None:
    done: list[str] = []

    def show() -> None:
        with undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("shown")
        done.append("never")

    with pytest.raises(KeyboardInterrupt):
        show()
    assert done == ["shown"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nothing_happens_without_an_interrupt() -> None:
    with undisturbed():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_comes_out() -> None:
    with pytest.raises(ValueError, match="broken"), undisturbed():
        raise ValueError("broken")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_are_not_interrupted_anyway() -> None:
    done: list[str] = []

    def show() -> None:
        with undisturbed():
            done.append("shown")

    thread = threading.Thread(target=show)
    thread.start()
    thread.join()
    assert done == ["shown"]
