"""The server of a manager: the library's, which keeps for a while what travels in pickles."""

from __future__ import annotations

import multiprocessing.managers as library
import threading
import time
from typing import Any, Final

from fibernb.multiprocessing.managers import links, patient

TRAVEL: Final = "#TRAVEL"  # a proxy says: I have been pickled
LINGER_S: Final = 60.0  # how long an object that was pickled stays after its last proxy has gone


class Server(library.Server):
    """Holds the objects of a manager, and calls their methods for proxies.

    An object goes with its last proxy. One whose proxy has been pickled stays `LINGER_S` longer, since the pickle may
    still be on its way: to a process that starts, or in a task that waits. What is overdue goes at the next occasion.
    """

    id_to_refcount: dict[str, int]
    mutex: threading.Lock

    def __init__(self, registry: dict[str, Any], address: Any, authkey: bytes, serializer: str) -> None:
        super().__init__(registry, address, authkey, serializer)
        self._lingering: dict[str, float] = {}  # objects that we count once ourselves; when they may go

    def handle_request(self, conn: Any) -> None:
        super().handle_request(links.adopt(conn))

    def serve_client(self, conn: Any) -> None:
        patient.served.connection = conn
        super().serve_client(conn)

    def create(self, c: Any, typeid: str, /, *args: Any, **kwds: Any) -> tuple[str, tuple[str, ...]]:
        self._release_overdue(c)
        return super().create(c, typeid, *args, **kwds)

    def decref(self, c: Any, ident: str) -> None:
        super().decref(c, ident)
        if ident in self._lingering:
            self._lingering[ident] = time.monotonic() + LINGER_S
        self._release_overdue(c)

    def number_of_objects(self, c: Any) -> int:  # noqa: ARG002  as the library calls it
        """How many objects have proxies."""
        with self.mutex:
            return sum(count > (ident in self._lingering) for ident, count in self.id_to_refcount.items())

    def keep_travelling(self, c: Any, ident: str, obj: Any) -> None:  # noqa: ARG002  one of `fallback_mapping`
        """The proxy of an object has been pickled."""
        if ident not in self._lingering:
            self.incref(c, ident)
        self._lingering[ident] = time.monotonic() + LINGER_S

    def _release_overdue(self, c: Any) -> None:
        now = time.monotonic()
        for ident, until in list(self._lingering.items()):
            if until < now and self.id_to_refcount.get(ident) == 1 and self._lingering.pop(ident, None) is not None:
                super().decref(c, ident)

    fallback_mapping: dict[str, Any] = {**library.Server.fallback_mapping, TRAVEL: keep_travelling}
