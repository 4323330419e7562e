"""The IPython of engines: made once, in the node process, before engines are forked from it."""

from __future__ import annotations

import builtins
import contextlib
import getpass
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.profiledir import ProfileDir
from traitlets.config import Config

from fibernb.engine.rich import EngineDisplayPublisher

HIDDEN_NAMES = ("exit", "quit")  # those of Python itself do on an engine, those of IPython want a terminal

NO_DEBUGGER: Final = (
    "nobody sits at an engine to answer a debugger: leave breakpoint() out, and look at an error with %fiber debug "
    "once it was raised"
)

_DEBUGGER: Final = re.compile(r"(?:\(Pdb\)|ipdb>)\)* *$")
"""How a prompt ends that is a debugger's."""


class EngineShell(InteractiveShell):
    """An IPython without terminal, history and prompts.

    ``interrupts`` tells how many interrupts this process has had. IPython ends a command or script that is interrupted,
    and then goes on with the cell; here the cell ends as well.
    """

    interrupts: Callable[[], int] = staticmethod(int)

    def init_display_pub(self) -> None:
        self.display_pub = EngineDisplayPublisher(parent=self, shell=self)  # type: ignore[no-untyped-call]

    def enable_gui(self, gui: Any = None) -> None:
        """Figures are displayed inline; there is no window system to integrate with."""

    def system(self, cmd: str) -> None:
        """Run a command of the system, with its output in the cell."""
        with self._ending_if_interrupted():
            self.system_piped(cmd)  # type: ignore[no-untyped-call]

    def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:
        with self._ending_if_interrupted():
            return super().getoutput(cmd, split, depth + 2)  # type: ignore[no-untyped-call]

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> Any:
        with self._ending_if_interrupted():
            return super().run_cell_magic(magic_name, line, cell)  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def _ending_if_interrupted(self) -> Iterator[None]:
        before = self.interrupts()
        try:
            yield
        except Exception:
            if self.interrupts() == before:
                raise
        if self.interrupts() != before:
            raise KeyboardInterrupt


def make_shell(directory: Path) -> EngineShell:
    """The shell of this process. ``directory`` takes what IPython wants to write."""
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.xmode = "Plain"
    config.InteractiveShell.warn_venv = False
    config.Completer.use_jedi = False
    ipython = directory / "ipython"
    ipython.mkdir(mode=0o700, exist_ok=True)
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shell: EngineShell = EngineShell.instance(config=config, ipython_dir=str(ipython), profile_dir=ProfileDir())
    for name in HIDDEN_NAMES:
        with contextlib.suppress(KeyError):
            del shell.user_ns[name]
    builtins.input = _refuse_input
    getpass.getpass = _refuse_getpass
    sys.breakpointhook = _refuse_breakpoint
    return shell


def _refuse_input(prompt: object = "", /) -> NoReturn:
    """A debugger would take the end of input for a wish to quit, which IPython passes over in silence."""
    if _DEBUGGER.search(str(prompt)):
        raise RuntimeError(NO_DEBUGGER)
    raise EOFError("nobody sits at an engine to answer input(): ask in the notebook itself, and use the value")


def _refuse_getpass(prompt: object = "", stream: object = None) -> NoReturn:  # noqa: ARG001  as Python has it
    raise EOFError("nobody sits at an engine to answer getpass(): ask in the notebook itself, and use the value")


def _refuse_breakpoint(*args: Any, **options: Any) -> Any:
    """For ``breakpoint()``, unless the user has said what that is to do."""
    if os.environ.get("PYTHONBREAKPOINT"):
        return sys.__breakpointhook__(*args, **options)  # noqa: T100  the user's own
    raise RuntimeError(NO_DEBUGGER)
