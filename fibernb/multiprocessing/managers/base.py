"""`BaseManager`: the library's, whose server is a process of the cluster."""

from __future__ import annotations

import multiprocessing.managers as library
import os
from collections.abc import Callable, Iterable
from multiprocessing import ProcessError, util
from typing import Any, Final

from fibernb.multiprocessing import places
from fibernb.multiprocessing.context import default
from fibernb.multiprocessing.managers import links
from fibernb.multiprocessing.managers.links import internal
from fibernb.multiprocessing.managers.proxies import own_type
from fibernb.multiprocessing.managers.server import Server

STATES: Final = {
    internal.State.STARTED: "this manager's server runs already: make another manager for another server",
    internal.State.SHUTDOWN: "this manager has been shut down: make a new one",
}


class BaseManager(library.BaseManager):
    """Makes objects in a server process, and proxies of them for everybody.

    Parameters
    ----------
    address : where the server listens; None: on a socket of its own in the cluster's private directory.
    authkey : what both sides have to know; None: the key of the current process.
    serializer : "pickle" or "xmlrpclib".
    ctx : whose processes and pipes are used.
    shutdown_timeout : seconds that the server has to end, before it is terminated, and then killed.
    """

    _Server = Server
    _address: Any
    _authkey: bytes
    _ctx: Any
    _default_proxy: Any = None  # of types that are registered without one
    _finalize_manager: Callable[..., object]
    _registry: dict[str, tuple[Any, ...]]
    _run_server: Callable[..., object]
    _serializer: str
    _shutdown_timeout: float
    _state: Any

    def __init__(
        self,
        address: Any = None,
        authkey: bytes | None = None,
        serializer: str = links.PICKLE,
        ctx: Any = None,
        *,
        shutdown_timeout: float = 1.0,
    ) -> None:
        super().__init__(address, authkey, serializer, ctx or default.get_context(), shutdown_timeout=shutdown_timeout)
        self._Client = links.client_of(serializer)

    def get_server(self) -> Server:
        """A server to run in this very process, by its ``serve_forever``."""
        self._check_initial()
        return self._Server(self._registry, self._address or new_address(), bytes(self._authkey), self._serializer)

    def start(self, initializer: Callable[..., object] | None = None, initargs: Iterable[Any] = ()) -> None:
        """Start the server as a process of the cluster, and wait until it listens.

        Raises `ProcessError` when it has been started before, and `EOFError` when it ends before it listens.
        """
        self._check_initial()
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        reader, writer = self._ctx.Pipe(duplex=False)
        serve = (self._registry, self._address or new_address(), bytes(self._authkey), self._serializer)
        say = (writer, initializer, tuple(initargs))
        self._process = self._ctx.Process(target=type(self)._run_server, args=serve + say)
        self._process.name = f"{type(self).__name__}-{':'.join(map(str, self._process._identity))}"
        self._process.start()
        writer.close()
        with reader:
            self._address = self._first_word(reader)
        self._state.value = internal.State.STARTED
        self._finalize_later()

    def _first_word(self, reader: Any) -> Any:
        try:
            return reader.recv()
        except EOFError as error:
            self._process.join()
            raise EOFError(
                f"the server of {type(self).__name__} ended with exit code {self._process.exitcode} before it "
                "listened: its output says why"
            ) from error

    def _finalize_later(self) -> None:
        """Let the server end with this manager, or with this process."""
        know = (self._process, self._address, self._authkey, self._state, self._Client, self._shutdown_timeout)
        self.shutdown = util.Finalize(self, type(self)._finalize_manager, args=know, exitpriority=0)

    def _check_initial(self) -> None:
        if self._state.value != internal.State.INITIAL:
            raise ProcessError(STATES[self._state.value])

    @classmethod
    def register(
        cls,
        typeid: str,
        callable: Callable[..., object] | None = None,  # noqa: A002  the library's name
        proxytype: Any = None,
        exposed: Any = None,
        method_to_typeid: Any = None,
        create_method: bool = True,
    ) -> None:
        """Make a type known: from now on the manager has a method of that name, which makes one and gives a proxy.

        Parameters
        ----------
        callable : what makes an object, in the server; None for managers that only connect to one.
        proxytype : class of the proxies; None: one with the public methods of the object.
        exposed : names of the methods that proxies may call.
        method_to_typeid : methods that return proxies, and of what type.
        create_method : false: no method of the manager makes such objects.
        """
        own = own_type(proxytype or cls._default_proxy)
        super().register(typeid, callable, own, exposed, method_to_typeid, create_method)


def new_address() -> str:
    """A path for a socket in the directory of the cluster, which only this user can enter."""
    return str(places.home() / f"manager-{os.urandom(4).hex()}.sock")
