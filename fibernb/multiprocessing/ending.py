"""The end of a program: its daemons are ended and its other processes waited for, before it leaves the cluster."""

from __future__ import annotations

import sys
from multiprocessing import process, util


def end_processes() -> None:
    """As the library does it when the interpreter ends. A program that Ctrl-C has ended interrupts its processes."""
    if getattr(sys, "last_type", None) is KeyboardInterrupt or isinstance(sys.exception(), KeyboardInterrupt):
        interrupt_children()
    util._exit_function()  # type: ignore[attr-defined]


def interrupt_children() -> None:
    """Pass Ctrl-C on, which in a terminal would reach the children by itself. Daemons are left to their owners."""
    for child in process.active_children():
        interrupt = getattr(getattr(child, "_popen", None), "interrupt", None)
        if interrupt is not None and not child.daemon:
            interrupt()
