"""Calls that are tied to ranks: the operations of engines, and what new engines repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fibernb import serialize
from fibernb.client.cells import CellHandle
from fibernb.client.ledger import portions
from fibernb.client.refs import ObjectRef
from fibernb.client.session import Session, define
from fibernb.core.messages import DefineFunction, Remember, Said
from fibernb.errors import ConfigError
from fibernb.model import Rank, TaskOptions

TITLES: Final = {
    "adopt": "the working directory",
    "get_names": "pulled names",
    "run_imports": "imports",
    "set_names": "pushed names",
}
"""What operations are called where users see them: in views, `%fiber ps`, the timeline."""


class PinnedCalls:
    """Runs functions on chosen ranks of one session. Functions of `fibernb.engine.operations` are pickled once."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._operations: dict[str, DefineFunction] = {}

    def operation(self, function: Callable[..., Any]) -> DefineFunction:
        """An engine's operation as the hub knows it."""
        name = function.__name__
        if name not in self._operations:
            self._operations[name] = define(function, TITLES.get(name, ""))
        return self._operations[name]

    def start(
        self,
        function: DefineFunction,
        ranks: Sequence[Rank],
        arguments: Sequence[tuple[Any, ...]],
        keywords: Mapping[str, Any] | None = None,
        on_said: Callable[[Said], object] | None = None,
        name: str | None = None,
    ) -> CellHandle:
        """Start a call on each rank. ``arguments``: one tuple for all ranks, or one for each.

        ``name``: what the call is called in the state of the cluster; None for the name of the function.
        """
        if not ranks:
            raise ConfigError("no ranks are chosen, or the cluster has no seats: scale it up first")
        packed = [serialize.dumps_call(args, dict(keywords or {}), ObjectRef) for args in arguments]
        inputs = _references(arguments, keywords or {})
        refs = self.session.submit_pinned(
            function,
            ranks,
            [data for data, _ in packed],
            options=TaskOptions(name=name or function.name, max_retries=0),
            inputs=inputs,
            on_said=on_said,
        )
        return CellHandle(self.session, ranks, refs)

    def remember(
        self,
        keys: Sequence[str],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        ranks: Sequence[Rank] | None,
        keepers: Sequence[ObjectRef] = (),
    ) -> None:
        """Repeat an operation on every new engine of the ranks (None: of all), until later ones take over its keys.

        ``keepers``: references to objects that the arguments stand in.
        """
        operation = self.operation(function)
        self.session.define(operation)
        data = [serialize.dumps_call(args, {}, ObjectRef)[0] for args in arguments]
        chosen = None if ranks is None else list(ranks)
        for part in portions(data) if len(data) > 1 else [slice(None)]:
            self.session.tell(
                Remember(
                    keys=tuple(keys),
                    function=operation.digest,
                    args=data[part],
                    ranks=None if chosen is None else chosen[part],
                    refs=tuple(keeper.id for keeper in keepers),
                ),
                keepers,
            )


def _references(arguments: Sequence[tuple[Any, ...]], keywords: Mapping[str, Any]) -> list[ObjectRef]:
    """The references among the arguments, if they are the same for all ranks."""
    found = [value for value in (*arguments[0], *keywords.values()) if isinstance(value, ObjectRef)]
    if found and len(arguments) > 1:
        raise ConfigError("arguments that differ by rank cannot hold references: get their values first")
    return list({ref.id: ref for ref in found}.values())
