"""`AsyncManager`, as Fiber has it: methods of its proxies return at once, with something to get the result from.

Each proxy has a connection of its own, so calls of one proxy run in their order, and those of different ones at once.
A thread waits for the answers, so that neither side ever waits for the other to read.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import socket
import threading
import weakref
from collections import deque
from collections.abc import Generator, Iterable
from multiprocessing import TimeoutError  # noqa: A004  the library's name
from typing import Any

from fibernb.multiprocessing.managers import patient, proxies
from fibernb.multiprocessing.managers.base import BaseManager
from fibernb.multiprocessing.managers.links import internal
from fibernb.multiprocessing.managers.proxies import BaseProxy


class AsyncProxyResult:
    """What a call of a method will come to. It can be awaited as well."""

    def __init__(self, proxy: AsyncBaseProxy) -> None:
        self._proxy = proxy
        self._future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def get(self, timeout: float | None = None) -> Any:
        """The result, or the exception that the method raised.

        Parameters
        ----------
        timeout : seconds to wait; `multiprocessing.TimeoutError` when they are over.
        """
        self.wait(timeout)
        if not self._future.done():
            raise TimeoutError(f"the call has not been answered within {timeout:g} s")
        return self._future.result()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the result is there, or so many seconds."""
        concurrent.futures.wait([self._future], timeout)

    def ready(self) -> bool:
        """Whether the result is there."""
        return self._future.done()

    def successful(self) -> bool:
        """Whether the method returned. Raises `ValueError` before the result is there."""
        if not self._future.done():
            raise ValueError("the call has not been answered yet")
        return self._future.exception() is None

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self._future).__await__()

    def settle(self, kind: str, value: Any) -> None:
        """Take the server's answer."""
        try:
            self._future.set_result(self._proxy._value_of(kind, value))
        except Exception as error:  # noqa: BLE001  of the method, or of making a proxy
            self._future.set_exception(error)

    def fail(self, error: BaseException) -> None:
        """There will be no answer."""
        self._future.set_exception(error)


class Channel:
    """A connection on which calls may be under way, and the thread that takes their answers in their order."""

    def __init__(self, connection: Any) -> None:
        self.is_open = True
        self._connection = connection
        self._pending: deque[AsyncProxyResult] = deque()
        self._lock = threading.Lock()
        threading.Thread(target=self._read, name="fibernb-async-proxy", daemon=True).start()

    def call(self, result: AsyncProxyResult, request: tuple[Any, ...]) -> AsyncProxyResult:
        """Send a request, whose answer ``result`` will take."""
        with self._lock:
            self._pending.append(result)
            try:
                self._connection.send(request)
            except BaseException:
                self._pending.remove(result)
                raise
        return result

    def close(self) -> None:
        """Let the thread end; calls that are under way fail."""
        with contextlib.suppress(OSError), socket.socket(fileno=self._connection.fileno()) as end:
            end.shutdown(socket.SHUT_RDWR)
            end.detach()

    def _read(self) -> None:
        with self._connection as connection:
            try:
                while True:
                    self._take(connection)
            except (EOFError, OSError) as error:
                self._fail(error)

    def _take(self, connection: Any) -> None:
        try:
            kind, value = connection.recv()
        except (EOFError, OSError):
            raise
        except Exception as error:  # noqa: BLE001  whatever unpickling raises is the answer
            self._pending.popleft().fail(error)
        else:
            self._pending.popleft().settle(kind, value)

    def _fail(self, cause: BaseException) -> None:
        self.is_open = False
        while self._pending:
            error = EOFError("the manager's server has closed the connection before it answered the call")
            error.__cause__ = cause
            self._pending.popleft().fail(error)


class AsyncBaseProxy(BaseProxy):
    """A proxy whose methods return an `AsyncProxyResult` each, at once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._opening = threading.Lock()
        self._channel: Channel | None = None

    def _callmethod(self, methodname: str, args: tuple[Any, ...] = (), kwds: dict[str, Any] | None = None) -> Any:
        request = (self._id, methodname, args, kwds or {})
        return self._opened().call(AsyncProxyResult(self), request)

    def _opened(self) -> Channel:
        with self._opening:
            if self._channel is None or not self._channel.is_open:
                self._channel = Channel(self._dial())
                weakref.finalize(self, self._channel.close)
            return self._channel

    def _dial(self) -> Any:
        """A connection that the server keeps open for calls."""
        connection = self._Client(self._token.address, authkey=self._authkey)
        internal.dispatch(connection, None, "accept_connection", (threading.current_thread().name,))
        return connection

    def _getvalue(self) -> Any:
        return BaseProxy._callmethod(self, "#GETVALUE")

    def __str__(self) -> str:
        return str(BaseProxy._callmethod(self, "__repr__"))

    def _value_of(self, kind: str, value: Any) -> Any:
        """What an answer of the server means: a value, a new proxy, or an exception, which is raised."""
        if kind == "#RETURN":
            return value
        if kind == "#PROXY":
            return self._proxy_of(*value)
        raise internal.convert_to_error(kind, value)

    def _proxy_of(self, exposed: Iterable[str], token: Any) -> Any:
        """The proxy of an object that a method has returned; the server's own count of it is given back."""
        token.address = self._token.address
        make = self._manager._registry[token.typeid][-1]
        proxy = make(token, self._serializer, manager=self._manager, authkey=self._authkey, exposed=exposed)
        with self._Client(token.address, authkey=self._authkey) as connection:
            internal.dispatch(connection, None, "decref", (token.id,))
        return proxy


def MakeAsyncProxyType(name: str, exposed: Iterable[str]) -> type[BaseProxy]:  # noqa: N802  Fiber's name
    """A type of proxy with these methods, which return at once."""
    return proxies.make_type(AsyncBaseProxy, name, exposed)


def AsyncAutoProxy(token: Any, serializer: str, *args: Any, **options: Any) -> BaseProxy:  # noqa: N802  Fiber's name
    """A proxy with all methods that the object exposes, which return at once."""
    return proxies.auto_proxy(AsyncAutoProxy, AsyncBaseProxy, token, serializer, *args, **options)


class AsyncListProxy(AsyncBaseProxy, internal.ListProxy):  # type: ignore[misc]  # a class without a stub
    """Of a list."""


class AsyncDictProxy(AsyncBaseProxy, internal.DictProxy):  # type: ignore[misc]  # a class without a stub
    """Of a dict."""


class AsyncArrayProxy(AsyncBaseProxy, internal.ArrayProxy):  # type: ignore[misc]  # a class without a stub
    """Of an `array.array`."""


class AsyncValueProxy(AsyncBaseProxy, internal.ValueProxy):  # type: ignore[misc]  # a class without a stub
    """Of a value with a typecode."""


class AsyncManager(BaseManager):
    """A manager whose proxies do not wait: every method returns an `AsyncProxyResult` at once.

    It knows lists, dicts, arrays, values and queues; others are to be registered.
    """

    _default_proxy = staticmethod(AsyncAutoProxy)


AsyncManager.register("list", list, AsyncListProxy)
AsyncManager.register("dict", dict, AsyncDictProxy)
AsyncManager.register("Array", internal.Array, AsyncArrayProxy)
AsyncManager.register("Value", internal.Value, AsyncValueProxy)
AsyncManager.register("Queue", patient.Queue)
AsyncManager.register("Iterator", proxytype=proxies.IteratorProxy, create_method=False)
