"""Proxies: the library's, made to travel in any pickle, and to stay usable after an interrupt."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.managers as library
import os
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Final

from fibernb.multiprocessing import places
from fibernb.multiprocessing.managers import links
from fibernb.multiprocessing.managers.links import internal
from fibernb.multiprocessing.managers.server import TRAVEL
from fibernb.multiprocessing.places import Place


class Elsewhere:
    """Stands for the manager of a proxy that came in a pickle: the manager itself is in another process."""

    def __init__(self, authkey: bytes) -> None:
        self._authkey = authkey
        self._state = internal.State()
        self._state.value = internal.State.STARTED
        self._registry = ReturnedTypes()


class ReturnedTypes(dict[str, tuple[Any, ...]]):
    """The types of what methods return as proxies: those of the library, and automatic ones for all others."""

    def __missing__(self, typeid: str) -> tuple[Any, ...]:
        return (None, None, None, IteratorProxy if typeid == "Iterator" else AutoProxy)


class BaseProxy(library.BaseProxy):
    """Stands for an object in the server of a manager. It can be pickled at any time, and used wherever it comes to.

    A call that is interrupted costs the connection: else its answer would be taken for that of the next call.
    """

    _authkey: bytes
    _exposed_: tuple[str, ...]
    _id: str
    _maker: Callable[..., BaseProxy]
    _manager: Any
    _owned_by_manager: bool
    _serializer: str
    _tls: Any
    _token: library.Token

    def __init__(
        self,
        token: library.Token,
        serializer: str,
        manager: Any = None,
        authkey: bytes | None = None,
        exposed: Any = None,
        incref: bool = True,
        manager_owned: bool = False,
    ) -> None:
        super().__init__(token, serializer, manager, authkey, exposed, False, manager_owned)
        self._Client = links.client_of(serializer)
        if incref:
            self._incref()

    def _incref(self) -> None:
        """Count this proxy in the server. The library does it late for what a process inherits."""
        if self._manager is None:
            self._manager = Elsewhere(self._authkey)
        counted: Any = super()
        counted._incref()

    def _callmethod(self, methodname: str, args: tuple[Any, ...] = (), kwds: dict[str, Any] | None = None) -> Any:
        try:
            return super()._callmethod(methodname, args, kwds or {})
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, EOFError | OSError):
                self._hang_up()
            traceback.clear_frames(error.__traceback__)  # the library's holds the error, and so would keep the proxy
            raise

    def _hang_up(self) -> None:
        """Forget this thread's connection to the server."""
        connection = self._tls.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._owned_by_manager:
            with contextlib.suppress(EOFError, OSError, internal.RemoteError):  # gone, or the library's own server
                BaseProxy._callmethod(self, TRAVEL)
        options: dict[str, Any] = {"authkey": bytes(self._authkey)}
        place = place_of_socket(self._token.address)
        maker = self.__dict__.get("_maker")
        if maker is not None:
            options["exposed"] = self._exposed_
        return RebuildProxy, (maker or type(self), self._token, self._serializer, options, place)


def place_of_socket(address: Any) -> Place | None:
    """Where the socket of a server is, if it is in the directory of this cluster."""
    if not isinstance(address, str) or os.path.dirname(address) != str(places.home()):
        return None
    return places.place_of("manager's object", address)


def RebuildProxy(  # noqa: N802  the library's name
    make: Callable[..., Any], token: library.Token, serializer: str, options: dict[str, Any], place: Place | None = None
) -> Any:
    """Called while unpickling: a proxy of that object, here. Raises `ClusterError` when it is out of reach."""
    if place is not None:
        places.key_at(place)
    return internal.RebuildProxy(make, token, serializer, dict(options))


# ---- types of proxies ---------------------------------------------------------------------------------------


_made: Final[dict[tuple[type[BaseProxy], str, tuple[str, ...]], type[BaseProxy]]] = {}


def MakeProxyType(name: str, exposed: Iterable[str]) -> type[BaseProxy]:  # noqa: N802  the library's name
    """A type of proxy with these methods; for the same name and methods, the same type."""
    return make_type(BaseProxy, name, exposed)


def make_type(base: type[BaseProxy], name: str, exposed: Iterable[str]) -> type[BaseProxy]:
    """As `MakeProxyType`, upon another base."""
    methods = tuple(exposed)
    if (base, name, methods) not in _made:
        plain = internal.MakeProxyType(name, methods)
        _made[base, name, methods] = type(name, (base, plain), {"_exposed_": methods})
    return _made[base, name, methods]


def AutoProxy(token: library.Token, serializer: str, *args: Any, **options: Any) -> BaseProxy:  # noqa: N802  the library's name
    """A proxy with all methods that the object exposes; the server is asked for them when they are not given.

    Parameters
    ----------
    args, options : of `BaseProxy`.
    """
    return auto_proxy(AutoProxy, BaseProxy, token, serializer, *args, **options)


def auto_proxy(
    maker: Callable[..., BaseProxy],
    base: type[BaseProxy],
    token: library.Token,
    serializer: str,
    manager: Any = None,
    authkey: bytes | None = None,
    exposed: Iterable[str] | None = None,
    **options: Any,
) -> BaseProxy:
    """As `AutoProxy`, upon another base; ``maker`` is what a pickle of it names."""
    key = authkey if authkey is not None or manager is None else manager._authkey
    if exposed is None:
        exposed = exposed_methods(token, serializer, key)
    proxy = make_type(base, f"AutoProxy[{token.typeid!s}]", exposed)(token, serializer, manager, key, **options)
    proxy._maker = maker
    return proxy


def exposed_methods(token: library.Token, serializer: str, authkey: bytes | None) -> Iterable[str]:
    """The names of the methods that an object has for proxies."""
    key = multiprocessing.current_process().authkey if authkey is None else authkey
    with links.client_of(serializer)(token.address, authkey=key) as connection:
        names: Iterable[str] = internal.dispatch(connection, None, "get_methods", (token,))
    return names


class IteratorProxy(BaseProxy, internal.IteratorProxy):  # type: ignore[misc]  # a class without a stub
    """Of an iterator or generator."""


class AcquirerProxy(BaseProxy, internal.AcquirerProxy):  # type: ignore[misc]  # a class without a stub
    """Of a lock or semaphore."""


class ConditionProxy(BaseProxy, internal.ConditionProxy):  # type: ignore[misc]  # a class without a stub
    """Of a `threading.Condition`."""


class EventProxy(BaseProxy, internal.EventProxy):  # type: ignore[misc]  # a class without a stub
    """Of a `threading.Event`."""


class BarrierProxy(BaseProxy, internal.BarrierProxy):  # type: ignore[misc]  # a class without a stub
    """Of a `threading.Barrier`."""


class NamespaceProxy(BaseProxy, internal.NamespaceProxy):  # type: ignore[misc]  # a class without a stub
    """Of a namespace: its attributes are the object's, but for those that begin with an underscore."""


class ValueProxy(BaseProxy, internal.ValueProxy):  # type: ignore[misc]  # a class without a stub
    """Of a value with a typecode."""


class ListProxy(BaseProxy, internal.ListProxy):  # type: ignore[misc]  # a class without a stub
    """Of a list."""


class DictProxy(BaseProxy, internal.DictProxy):  # type: ignore[misc]  # a class without a stub
    """Of a dict."""


class ArrayProxy(BaseProxy, internal.ArrayProxy):  # type: ignore[misc]  # a class without a stub
    """Of an `array.array`."""


class PoolProxy(BaseProxy, internal.PoolProxy):  # type: ignore[misc]  # a class without a stub
    """Of a pool that lives in the manager's server."""


OWN: Final[dict[Any, type[BaseProxy]]] = {
    getattr(internal, kind.__name__): kind
    for kind in (
        IteratorProxy,
        AcquirerProxy,
        ConditionProxy,
        EventProxy,
        BarrierProxy,
        NamespaceProxy,
        ValueProxy,
        ListProxy,
        DictProxy,
        ArrayProxy,
        PoolProxy,
    )
}


def own_type(proxytype: Any) -> Any:
    """Our counterpart of a type of proxy of the library; any other, as it is. None: automatic."""
    if proxytype is None or proxytype is internal.AutoProxy:
        return AutoProxy
    return OWN.get(proxytype, proxytype)
