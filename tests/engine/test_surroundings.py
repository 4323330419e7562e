"""What calls find around them, and what the hub is told of references before it hears their results."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fibernb import serialize
from fibernb.core.messages import Run
from fibernb.engine.actors import Method, exit_actor
from fibernb.engine.context import EngineContext, current, enter
from fibernb.engine.operations import adopt
from fibernb.engine.surroundings import Surroundings
from fibernb.errors import ClusterError, EnvironmentFailed, NotConnected
from fibernb.model import STREAM_IDS, STREAMING, ActorOptions, Call, Resources, Result, TaskOptions
from fibernb.serialize import references
from fibernb.wire import codec
from fibernb.wire.handshake import Seat
from tests.engine.conftest import ENGINE, RANK, InProcess
from tests.engine.fakehub import FakeHub, NotThere


class Reference:
    """Notes itself when it is pickled, as references do."""

    def __init__(self, id_: int) -> None:
        self.id = id_

    def __reduce__(self) -> tuple[object, ...]:
        references.note(self.id)
        return Reference, (self.id,)


@pytest.fixture
def context() -> Any:
    cells: Any = None
    made = EngineContext(directory="/nowhere", cells=cells, current_task=lambda: 0)
    enter(made)
    yield made
    enter(None)


def settled(in_process: InProcess, context: EngineContext, hub: FakeHub) -> list[int]:
    """Which tasks had no result yet when the hub was told of references."""
    assert in_process.engine is not None
    in_process.engine.enter(context)
    found: list[int] = []
    context.settle = lambda: found.append(in_process.engine.current_task())
    return found


def test_the_hub_knows_of_references_before_their_results(in_process: InProcess, context: EngineContext) -> None:
    def scenario(hub: FakeHub) -> None:
        found = settled(in_process, context, hub)
        assert hub.call(ENGINE, lambda: 1) == 1
        assert found == []
        (task,) = hub.send(ENGINE, lambda: [Reference(77)], ())
        hub.value(task)
        assert found == [task]
        assert hub.results[task].refs == (77,)
        (several,) = hub.send(ENGINE, lambda: (1, Reference(78)), (), options=TaskOptions(num_returns=2))
        hub.value(several)
        assert found == [task, several]

    in_process.play(scenario)


def test_it_knows_of_those_that_came_with_the_arguments(in_process: InProcess, context: EngineContext) -> None:
    def scenario(hub: FakeHub) -> None:
        found = settled(in_process, context, hub)
        digest, code = serialize.dumps_function(len)
        packed, _ = serialize.pack_call(([Reference(5)],), {}, NotThere, None)
        plain = serialize.dumps_call(([1],), {}, NotThere)[0]
        calls = [Call(900, plain), Call(901, packed.data, (), packed.refs)]
        run = Run(function=digest, calls=calls, position=0, code=code)
        hub.listener.send(hub.datas[ENGINE], codec.encode(run))
        assert hub.value(901) == 1
        assert found == [901]

    in_process.play(scenario)


def test_it_knows_of_those_that_stand_in_inputs(in_process: InProcess, context: EngineContext) -> None:
    def scenario(hub: FakeHub) -> None:
        found = settled(in_process, context, hub)
        inputs = [Result(100, serialize.pack([Reference(5)]).data, refs=(5,))]
        packed, deps = serialize.dumps_call((Reference(100),), {}, Reference)
        digest, code = serialize.dumps_function(len)
        run = Run(function=digest, calls=[Call(901, packed, deps)], position=0, code=code, inputs=inputs)
        hub.listener.send(hub.datas[ENGINE], codec.encode(run))
        assert hub.value(901) == 1
        assert found == [901]

    in_process.play(scenario)


def references_one_by_one() -> Any:
    yield 1
    yield Reference(5)


def test_it_knows_of_those_in_items_of_streams(in_process: InProcess, context: EngineContext) -> None:
    def scenario(hub: FakeHub) -> None:
        found = settled(in_process, context, hub)
        digest, code = serialize.dumps_function(references_one_by_one)
        calls = [Call(STREAM_IDS, serialize.dumps_call((), {}, NotThere)[0])]
        options = TaskOptions(num_returns=STREAMING)
        run = Run(function=digest, calls=calls, position=0, code=code, options=options)
        hub.listener.send(hub.datas[ENGINE], codec.encode(run))
        assert hub.value(STREAM_IDS) == 2
        assert found == [STREAM_IDS]

    in_process.play(scenario)


def test_a_hub_that_is_gone_is_no_reason_to_fail(context: EngineContext) -> None:
    def gone() -> None:
        raise NotConnected("gone")

    surroundings = Surroundings()
    surroundings.settle()
    surroundings.context = context
    surroundings.settle()
    context.settle = gone
    surroundings.settle()


# ---- what calls can ask for -------------------------------------------------------------------------------


def describe() -> tuple[Any, ...]:
    engine = current()
    assert engine is not None
    return engine.task_name, engine.resources.milli_gpus, engine.gpus, os.environ.get("CUDA_VISIBLE_DEVICES")


class Describing:
    def describe(self) -> tuple[Any, ...]:
        return describe()

    async def describe_async(self) -> tuple[Any, ...]:
        return describe()


def test_calls_see_what_they_were_given(
    in_process: InProcess, context: EngineContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def scenario(hub: FakeHub) -> None:
        settled(in_process, context, hub)
        assert hub.call(ENGINE, describe, options=TaskOptions(name="plain")) == ("plain", 0, (), None)
        digest, code = serialize.dumps_function(describe)
        options = TaskOptions(name="gpu", resources=Resources(milli_gpus=2000))
        calls = [Call(900, serialize.dumps_call((), {}, NotThere)[0])]
        run = Run(function=digest, calls=calls, position=1, code=code, options=options, gpus=(1, 2))
        hub.listener.send(hub.datas[ENGINE], codec.encode(run))
        hub.positions[ENGINE] += 1
        assert hub.value(900) == ("gpu", 2000, (1, 2), "1,2")
        assert hub.call(ENGINE, describe, options=TaskOptions(name="plain")) == ("plain", 0, (), None)

    in_process.play(scenario)


@pytest.mark.parametrize(
    ("options", "method"),
    [
        (ActorOptions(resources=Resources(milli_gpus=1000)), "describe"),
        (ActorOptions(resources=Resources(milli_gpus=1000), max_concurrency=2), "describe"),
        (ActorOptions(resources=Resources(milli_gpus=1000), max_concurrency=2, is_async=True), "describe_async"),
    ],
)
def test_calls_of_an_actor_share_what_it_was_given(
    in_process: InProcess,
    context: EngineContext,
    monkeypatch: pytest.MonkeyPatch,
    options: ActorOptions,
    method: str,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    def scenario(hub: FakeHub) -> None:
        settled(in_process, context, hub)
        actor = hub.create(ENGINE, Describing, options=options, restarts=1, gpus=(3,))
        hub.value(actor)
        assert (context.actor, context.was_restarted) == (actor, True)
        for name in ("a", "b"):
            told = hub.call(ENGINE, Method(method), options=TaskOptions(name=name))
            assert told == (name, 1000, (3,), "3")

    in_process.play(scenario)


def test_exit_actor_outside_of_actors_says_so(context: EngineContext) -> None:
    with pytest.raises(ClusterError, match="does not run in one"):
        exit_actor()


# ---- runtime environments ---------------------------------------------------------------------------------


def test_an_environment_is_entered_before_the_first_call(context: EngineContext, tmp_path: Path) -> None:
    here = Path.cwd()
    surroundings = Surroundings()
    surroundings.context = context
    try:
        assert surroundings.set_up("") is None
        text = msgspec.json.encode({"working_dir": str(tmp_path)}).decode()
        assert surroundings.set_up(text) is None
        assert (context.environment, context.paths, context.has_own_directory) == (text, (str(tmp_path),), True)
    finally:
        os.chdir(here)


def test_the_notebooks_place_does_not_displace_that_of_an_environment(
    context: EngineContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, notebook = tmp_path / "own", tmp_path / "notebook"
    for directory in (own, notebook):
        directory.mkdir()
    monkeypatch.chdir(own)
    monkeypatch.setattr(sys, "path", [str(own), "/elsewhere"])
    context.paths, context.has_own_directory = (str(own),), True
    adopt(str(notebook), [str(notebook)])
    assert Path.cwd() == own
    assert sys.path == [str(own), str(notebook), "/elsewhere"]
    context.paths, context.has_own_directory = (), False
    adopt(str(notebook), [str(notebook)])
    assert Path.cwd() == notebook
    assert sys.path[0] == str(notebook)


def test_one_that_cannot_be_had_fails_every_call(in_process: InProcess) -> None:
    def scenario(hub: FakeHub) -> None:
        for _ in range(2):
            with pytest.raises(EnvironmentFailed, match="/no/such/place"):
                hub.call(ENGINE, len, "ab")
        with pytest.raises(EnvironmentFailed, match="/no/such/place"):
            hub.value(hub.create(ENGINE, Describing))

    text = msgspec.json.encode({"py_modules": ["/no/such/place"]}).decode()
    in_process.play(scenario, Seat(engine=ENGINE, rank=-RANK, environment=text))
