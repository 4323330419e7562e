from __future__ import annotations

import copy
import gc
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import cloudpickle
import pytest

import fibernb as fnb
from fibernb import serialize
from fibernb.client import functions
from fibernb.client.session import Session
from fibernb.core import messages as m
from fibernb.errors import ConfigError, SerializationError
from fibernb.exceptions import PendingCallsLimitExceeded
from fibernb.model import STREAMING
from tests.client.fake_hub import FakeHub


class Base:
    def inherited(self) -> str:
        return "base"


class Counter(Base):
    """Counts."""

    STEP = 2

    def __init__(self, start: int = 0, *, step: int = 1) -> None:
        self.value = start
        self.step = step

    def add(self, times: int = 1) -> int:
        self.value += times * self.step
        return self.value

    @fnb.method(num_returns=2)
    def pair(self) -> tuple[int, int]:
        return self.value, -self.value

    @staticmethod
    def doubled(x: int) -> int:
        return 2 * x

    @classmethod
    def name_of(cls, suffix: str) -> str:
        return cls.__name__ + suffix

    def __call__(self, x: int) -> int:
        return x


RemoteCounter = fnb.remote(Counter)


def test_an_actor_is_made_and_called(session: Session, hub: FakeHub) -> None:
    counter = RemoteCounter.remote(5, step=2)
    assert fnb.get(counter.add.remote()) == 7
    assert fnb.get([counter.add.remote(2), counter.add.remote(times=3)]) == [11, 17]
    assert fnb.get(counter.inherited.remote()) == "base"
    assert fnb.get(counter.doubled.remote(4)) == 8
    assert fnb.get(counter.name_of.remote("!")) == "Counter!"
    assert fnb.get(counter.__call__.remote(3)) == 3
    (created,) = hub.of(m.CreateActor)
    assert (created.options.class_name, created.options.max_concurrency, created.options.is_async) == (
        "Counter", 1, False,
    )  # fmt: skip
    call = hub.of(m.CallActor)[0]
    assert (call.actor, call.options.name, call.options.max_retries) == (created.actor, "Counter.add", 0)


def test_arguments_may_be_references(session: Session) -> None:
    counter = RemoteCounter.remote(fnb.put(5))
    assert fnb.get(counter.add.remote(fnb.put(2))) == 7
    assert fnb.get(counter.add.remote(times=fnb.put(2))) == 9


def test_several_values_and_none(session: Session) -> None:
    counter = RemoteCounter.remote(5)
    assert fnb.get(counter.pair.remote()) == [5, -5]
    assert counter.add.options(num_returns=0).remote() is None
    assert fnb.get(counter.add.remote(0)) == 6


def test_options_of_calls(session: Session, hub: FakeHub) -> None:
    counter = RemoteCounter.options(concurrency_groups={"io": 2}, max_task_retries=4).remote()
    fnb.get(counter.add.options(name="plus", concurrency_group="io").remote())
    (call,) = hub.of(m.CallActor)
    assert (call.options.name, call.options.max_retries) == ("plus", 4)
    with pytest.raises(ConfigError, match=r"no concurrency group 'disk'.*has: io"):
        counter.add.options(concurrency_group="disk")
    with pytest.raises(ConfigError, match="num_return"):
        counter.add.options(num_return=2)


def test_generators_and_coroutines_are_detected() -> None:
    from fibernb.client import handles
    from fibernb.client.actor_options import ActorSettings

    class Mixed:
        def numbers(self) -> Iterator[int]:
            yield 1

        async def wait(self) -> None:
            """Nothing."""

        async def stream(self) -> Any:
            yield 1

        @fnb.method(concurrency_group="io")
        def grouped(self) -> None:
            """Nothing."""

    assert handles.is_async(Mixed)
    assert not handles.is_async(Counter)
    with pytest.raises(ConfigError, match=r"Mixed\.grouped: the actor has no concurrency group 'io'"):
        handles.about_class(Mixed, ActorSettings())
    settings = fnb.remote(concurrency_groups={"io": 1})(Mixed)._settings
    methods = handles.about_class(Mixed, settings).methods
    assert methods["numbers"].options.num_returns == methods["stream"].options.num_returns == STREAMING
    assert methods["wait"].options.num_returns == 1
    assert methods["grouped"].group == "io"
    assert "__init__" not in methods


def test_async_actors_have_many_calls_at_a_time(session: Session, hub: FakeHub) -> None:
    @fnb.remote
    class Waiter:
        async def wait(self) -> None:
            """Nothing."""

    waiter: Any = Waiter  # a type checker takes no notice of what decorates a class
    waiter.remote()
    waiter.options(max_concurrency=3).remote()
    session.flush()
    session.status()
    first, second = (message.options for message in hub.of(m.CreateActor))
    assert (first.is_async, first.max_concurrency) == (True, 1000)
    assert second.max_concurrency == 3


def test_mistakes_are_told_where_they_are_made(session: Session) -> None:
    with pytest.raises(TypeError, match=r"call Counter\.remote"):
        RemoteCounter()
    with pytest.raises(TypeError, match="unexpected keyword argument 'begin'"):
        RemoteCounter.remote(begin=1)
    with pytest.raises(TypeError, match="too many positional"):
        RemoteCounter.remote(1, 2)
    counter = RemoteCounter.remote()
    with pytest.raises(TypeError, match=r"actor\.add\.remote"):
        counter.add()
    with pytest.raises(TypeError, match=r"Counter\.add: too many positional"):
        counter.add.remote(1, 2)
    with pytest.raises(AttributeError, match=r"no method 'ad'\. Did you mean 'add'"):
        _ = counter.ad
    with pytest.raises(
        AttributeError, match="State is read by a method that returns it; an actor has the methods that its class had"
    ):
        _ = counter.value
    with pytest.raises(SerializationError, match=r"args\[0\]"):
        counter.add.remote([threading.Lock()])
    with pytest.raises(TypeError, match="remote already"):
        fnb.remote(RemoteCounter)
    with pytest.raises(TypeError, match="cannot be inherited from"):

        class Derived(RemoteCounter):  # type: ignore[misc, valid-type]
            """Nothing."""

    with pytest.raises(TypeError, match="takes the handle of an actor"):
        fnb.kill("counter")  # type: ignore[arg-type]


def test_what_the_class_has_is_seen_through(session: Session) -> None:
    assert RemoteCounter.STEP == 2
    assert RemoteCounter.__doc__ == "Counts."
    assert "Counter" in repr(RemoteCounter)
    with pytest.raises(AttributeError):
        _ = RemoteCounter.nothing
    with pytest.raises(AttributeError, match="method of actors"):
        _ = RemoteCounter.add
    assert RemoteCounter.name_of("!") == "Counter!"
    with pytest.raises(AttributeError):
        _ = RemoteCounter._nothing


def test_handles_travel(session: Session, hub: FakeHub) -> None:
    counter = RemoteCounter.remote(1)
    again = cloudpickle.loads(cloudpickle.dumps(counter))
    assert again == counter
    assert hash(again) == hash(counter)
    assert counter != RemoteCounter.remote(1)
    assert copy.copy(counter) is copy.deepcopy(counter) is counter
    assert fnb.get(again.add.remote()) == 2
    method = cloudpickle.loads(cloudpickle.dumps(counter.add))
    assert fnb.get(method.remote()) == 3
    assert "Counter" in repr(counter)
    assert "Counter.add" in repr(counter.add)
    assert {"add", "inherited", "__ray_terminate__"} <= set(dir(counter))


def test_handles_within_arguments_are_counted(session: Session, hub: FakeHub) -> None:
    counter = RemoteCounter.remote(1)
    fnb.get(fnb.remote(len).remote([counter]))
    (submit,) = hub.of(m.Submit)
    assert submit.calls[0].refs == (counter._actor_ref.id,)


def test_an_actor_ends_with_its_last_handle(session: Session, hub: FakeHub) -> None:
    counter = RemoteCounter.remote(1)
    actor_id = counter._actor_ref.id
    method = counter.add
    del counter
    assert fnb.get(method.remote()) == 2, "a method holds on to the actor as well"
    del method
    gc.collect()
    session.settle()
    assert actor_id in [id_ for message in hub.of(m.Release) for id_ in message.objects]


def test_names(session: Session, hub: FakeHub) -> None:
    first = RemoteCounter.options(name="one").remote(1)
    assert fnb.get_actor("one") == first
    assert fnb.get(fnb.get_actor("one").add.remote()) == 2
    assert RemoteCounter.options(name="one", get_if_exists=True).remote() == first
    with pytest.raises(ValueError, match="taken"):
        RemoteCounter.options(name="one").remote()
    with pytest.raises(ValueError, match="no actor named 'two'"):
        fnb.get_actor("two")
    with pytest.raises(ConfigError, match="name of an actor"):
        fnb.get_actor("")


def test_replacing_ends_the_one_that_has_the_name(session: Session, hub: FakeHub) -> None:
    first = RemoteCounter.options(name="one", replace=True).remote(1)
    assert not hub.of(m.KillActor)
    with pytest.raises(ConfigError, match="taken"):
        RemoteCounter.options(name="one", replace=True).remote(1)  # the fake one does not let go
    assert [message.actor for message in hub.of(m.KillActor)] == [first._actor_ref.id]


def test_kill(session: Session, hub: FakeHub) -> None:
    counter = RemoteCounter.remote(1)
    fnb.kill(counter, no_restart=False)
    fnb.kill(counter)
    session.settle()
    assert [message.no_restart for message in hub.of(m.KillActor)] == [False, True]


def test_a_class_follows_the_notebook(session: Session, hub: FakeHub) -> None:
    cells = types.ModuleType("__main__").__dict__
    exec("factor = 2\nclass Scaler:\n    def scaled(self, x):\n        return factor * x", cells)
    scaler = fnb.remote(cells["Scaler"])
    assert fnb.get(scaler.remote().scaled.remote(3)) == 6
    functions.next_epoch()
    assert fnb.get(scaler.options(max_restarts=1).remote().scaled.remote(3)) == 6
    assert classes_of(hub) == 1, "what has not changed is not sent again"
    cells["factor"] = 5
    functions.next_epoch()
    scaler.remote()
    session.settle()
    assert classes_of(hub) == 2


def classes_of(hub: FakeHub) -> int:
    return sum(1 for message in hub.of(m.DefineFunction) if message.name == "Scaler")


def test_an_actor_class_travels_and_may_name_itself(session: Session) -> None:
    cells = types.ModuleType("__main__").__dict__
    exec("class Node:\n    def child(self):\n        return Node", cells)
    node = cells["Node"] = fnb.remote(cells["Node"])
    again = cloudpickle.loads(cloudpickle.dumps(node.options(max_restarts=3)))
    assert again._settings.options.max_restarts == 3
    assert isinstance(fnb.get(node.remote().child.remote()), fnb.ActorClass)


def test_unfinished_calls_may_be_limited(session: Session, hub: FakeHub) -> None:
    counter = RemoteCounter.options(max_pending_calls=2).remote()
    hub.hold = True
    refs = [counter.add.remote(), counter.add.remote()]
    with pytest.raises(PendingCallsLimitExceeded, match="max_pending_calls is 2"):
        cloudpickle.loads(cloudpickle.dumps(counter)).add.remote()
    session.flush()
    fnb.wait(refs, num_returns=2, timeout=0.2)
    hub.release_held()
    assert fnb.get(refs) == [1, 2]
    assert fnb.get(counter.add.remote()) == 3


def test_a_handle_of_another_session_is_told(session: Session) -> None:
    from fibernb.client import current
    from fibernb.errors import NotConnected
    from tests.client.fake_hub import FakeConnector

    counter = RemoteCounter.remote()
    other_hub = FakeHub()
    other = Session(FakeConnector(other_hub))
    current.use(other)
    try:
        with pytest.raises(NotConnected, match="another cluster"):
            fnb.kill(counter)
    finally:
        other.close()
        other_hub.close()


def test_a_decorated_class_of_a_module_goes_by_value(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("nowhere_to_import")
    exec("import fibernb\n@fibernb.remote\nclass Thing:\n    def get(self):\n        return 5", module.__dict__)
    monkeypatch.setitem(sys.modules, "nowhere_to_import", module)
    code = module.Thing._code.current().code
    monkeypatch.delitem(sys.modules, "nowhere_to_import")
    assert serialize.loads_function(code)().get() == 5
