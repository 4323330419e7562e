"""``%%parallel --each``: a cell body as load-balanced tasks, one for every item."""

from __future__ import annotations

import asyncio
import functools
import linecache
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell

from fibernb import serialize
from fibernb.client import failures
from fibernb.client.cluster import Cluster
from fibernb.client.refs import Group, ObjectRef, error_of
from fibernb.client.session import Session, define
from fibernb.core.messages import DefineFunction, Said
from fibernb.engine import operations
from fibernb.errors import GetTimeout, SerializationError, TaskCancelled, annotate
from fibernb.model import Outcome, Rank, TaskOptions
from fibernb.notebook.body import Body
from fibernb.notebook.request import Each
from fibernb.notebook.usage import UsageError

_EXPRESSION_FILE: Final = "<--each>"  # what tracebacks call the expression


def items_of(shell: InteractiveShell, each: Each) -> list[Any]:
    """The items, from the notebook. Raises what their expression raises, UsageError when it gives no items."""
    linecache.cache[_EXPRESSION_FILE] = (len(each.expression), None, [each.expression], _EXPRESSION_FILE)
    code = compile(each.expression, _EXPRESSION_FILE, "eval")
    found = eval(code, shell.user_global_ns, shell.user_ns)
    try:
        items = iter(found)
    except TypeError:
        raise UsageError(
            f"%%parallel: --each {each.name}={each.expression} gives {type(found).__name__}, not items to go through"
        ) from None
    return [item for item in items]  # noqa: C416  list() would hear no interrupt, and there may be no end of them


def submit(
    cluster: Cluster,
    body: Body,
    each: Each,
    items: Sequence[Any],
    pushed: Sequence[str],
    on_said: Callable[[int, Said], object],
) -> list[ObjectRef]:
    """Submit the body once for each item: references in the order of items. ``on_said`` is told the item's index."""
    session = cluster.session
    function = _function_of(cluster, body, each, pushed)
    session.define(function)
    group = Group(function.digest, TaskOptions(name=function.name, max_retries=each.retries), session.parent())
    refs = []
    for index, item in enumerate(items):
        args = _dumps(each, index, item)
        with session.books.mutex:  # so that nobody is told of the call before there is somebody to listen
            ref, full = session.entries.enter(group, args)
            session.inbox.listen([ref.id], functools.partial(on_said, index))
        if full:
            session.flush()
        refs.append(ref)
    session.flush()
    return refs


class EachHandle:
    """The items of a cell that are under way.

    Parameters
    ----------
    refs : one for each item, in their order.
    keep_errors : whether failed items hold their exception among the values.
    ranks : where items run, as there is room.
    """

    def __init__(
        self, session: Session, refs: Sequence[ObjectRef], *, keep_errors: bool, ranks: Sequence[Rank] = ()
    ) -> None:
        self.refs = tuple(refs)
        self.ranks = tuple(ranks)
        self.timed_out = ""  # what to say when it was cancelled since its time was over
        self._session = session
        self._keep_errors = keep_errors

    def done(self) -> bool:
        """Whether every item has finished, one way or the other."""
        return all(ref.done() for ref in self.refs)

    def result(self, timeout: float | None = None) -> list[Any]:
        """The values in the order of items; waits for them.

        Parameters
        ----------
        timeout : seconds; None waits for ever.

        Raises the exception of the first item that failed, with a note on how many did, unless errors are kept among
        the values; `CellTimeout` when the cell was cancelled since its own time was over; `GetTimeout` when some had
        not finished in the time of this call, which go on.
        """
        if not self._session.wait(self.done, timeout):
            left = sum(not ref.done() for ref in self.refs)
            raise GetTimeout(f"{left} of {len(self.refs)} items had not finished after {timeout:g} s; they go on")
        errors = self.errors()
        if errors and not self._keep_errors:
            raise failures.in_time(self.timed_out, _first_of(errors, len(self.refs)), "item", errors)
        return [errors[index] if index in errors else _value_of(ref) for index, ref in enumerate(self.refs)]

    def errors(self) -> dict[int, BaseException]:
        """The exceptions of the items that have failed, by their positions."""
        return {index: _error_of(ref) for index, ref in enumerate(self.refs) if _failed(ref)}

    def cancel(self, force: bool = False, recursive: bool = True) -> None:
        """Stop the items that have not finished, and unless ``recursive`` is false the tasks that they have submitted.

        With ``force`` engines that run some are replaced.
        """
        self._session.cancel(self.refs, force, recursive)

    def __await__(self) -> Generator[Any, None, list[Any]]:
        yield from _arrival_of(self.refs).__await__()
        return self.result()

    def __repr__(self) -> str:
        ended = sum(ref.done() for ref in self.refs)
        return f"<cell on {len(self.refs)} items: {ended} finished>"


async def _arrival_of(refs: Sequence[ObjectRef]) -> None:
    await asyncio.gather(*map(_answered, refs), return_exceptions=True)


async def _answered(ref: ObjectRef) -> None:
    await ref


def _first_of(errors: dict[int, BaseException], total: int) -> BaseException:
    real = {index: error for index, error in errors.items() if not isinstance(error, TaskCancelled)} or errors
    index, error = next(iter(real.items()))
    annotate(error, f"item {index}; {len(errors)} of {total} items failed, --on-error keep gives the others' values")
    return error


def _function_of(cluster: Cluster, body: Body, each: Each, pushed: Sequence[str]) -> DefineFunction:
    """The body as a function of the item."""
    cell = operations.CellContext(
        cell_id=body.filename,
        ranks=tuple(range(cluster.size)),
        size=cluster.size,
        filename=body.filename,
        first_line=body.first_line,
        pushed=(*pushed, each.name),  # an item that is called rank is not the engine's rank
    )
    return define(functools.partial(operations.run_item, body.source, each.name, cell=cell), "%%parallel --each")


def _dumps(each: Each, index: int, item: object) -> bytes:
    if isinstance(item, ObjectRef):
        item = item.result()
    try:
        data, _ = serialize.dumps_call((item,), {}, ObjectRef)
    except SerializationError as error:
        path = str(error).replace("args[0]", f"{each.name}[{index}]", 1)
        raise SerializationError(f"item {index} of --each cannot be sent: {path}") from error
    return data


def _failed(ref: ObjectRef) -> bool:
    return ref.answer is not None and ref.answer.outcome is not Outcome.OK


def _error_of(ref: ObjectRef) -> BaseException:
    assert ref.answer is not None
    return error_of(ref.answer)


def _value_of(ref: ObjectRef) -> Any:
    assert ref.answer is not None
    return ref.result()
