# mypy: disable-error-code="attr-defined,untyped-decorator"
"""Ray's pages on named and detached actors."""

from __future__ import annotations

from typing import Any

import pytest

import fibernb as ray
from tests.integration.conftest import Place, wait_until


@ray.remote
class Greeter:
    def __init__(self, greeting: str = "hello") -> None:
        self.greeting = greeting

    def greet(self) -> str:
        return self.greeting


def test_an_actor_is_found_by_its_name() -> None:
    greeter = Greeter.options(name="found").remote("good morning")
    assert ray.get(ray.get_actor("found").greet.remote()) == "good morning"
    assert ray.get(greeter.greet.remote()) == "good morning"


def test_a_task_finds_it_too() -> None:
    @ray.remote
    def ask(name: str) -> Any:
        return ray.get(ray.get_actor(name).greet.remote())

    greeter = Greeter.options(name="asked").remote("hi")
    assert ray.get(ask.remote("asked")) == "hi"
    del greeter


def test_there_is_no_such_actor() -> None:
    with pytest.raises(ValueError, match="nobody"):
        ray.get_actor("nobody")


def test_a_name_is_taken() -> None:
    greeter = Greeter.options(name="taken").remote()
    with pytest.raises(ValueError, match=r"'taken'.*get_if_exists=True.*replace=True") as caught:
        Greeter.options(name="taken", get_if_exists=False).remote()
    assert isinstance(caught.value, ray.exceptions.ActorAlreadyExistsError)
    del greeter


def test_a_name_goes_over_to_a_class_that_was_defined_again() -> None:
    """As when the cell of a notebook that defines an actor and makes it is run again."""
    first = Greeter.options(name="again").remote()

    @ray.remote
    class Redefined:
        def greet(self) -> str:
            return "a new class"

    second = Redefined.options(name="again", replace=True).remote()
    assert ray.get(ray.get_actor("again").greet.remote()) == "a new class"
    with pytest.raises(ray.exceptions.ActorDiedError, match="killed"):
        ray.get(first.greet.remote())
    del second


def test_get_if_exists() -> None:
    first = Greeter.options(name="shared", get_if_exists=True).remote("first")
    second = Greeter.options(name="shared", get_if_exists=True).remote("second")
    assert ray.get([first.greet.remote(), second.greet.remote()]) == ["first", "first"]


def test_namespaces_keep_names_apart() -> None:
    here = Greeter.options(name="orange", namespace="colors").remote("a color")
    there = Greeter.options(name="orange", namespace="fruit").remote("a fruit")
    with pytest.raises(ValueError, match="orange"):
        ray.get_actor("orange")
    assert ray.get(ray.get_actor("orange", namespace="colors").greet.remote()) == "a color"
    assert ray.get(ray.get_actor("orange", namespace="fruit").greet.remote()) == "a fruit"
    del here, there


def test_a_name_is_free_again_after_a_kill() -> None:
    first = Greeter.options(name="again").remote("first")
    ray.get(first.greet.remote())
    ray.kill(first)
    second = Greeter.options(name="again").remote("second")
    assert ray.get(ray.get_actor("again").greet.remote()) == "second"
    del second


def test_a_named_actor_ends_with_its_last_handle() -> None:
    greeter = Greeter.options(name="ends").remote()
    ray.get(greeter.greet.remote())
    del greeter
    wait_until(lambda: "ends" not in ray.util.list_named_actors())
    with pytest.raises(ValueError, match="ends"):
        ray.get_actor("ends")


def test_a_detached_actor_outlives_its_creator(place: Place) -> None:
    cluster = ray.init()
    done = place.run(
        """
        import sys
        import fibernb as ray

        ray.connect(sys.argv[1])

        class Store:
            def __init__(self):
                self.items = []
            def add(self, item):
                self.items.append(item)
                return self.items

        Detached = ray.remote(Store).options(name="store", namespace="kept", lifetime="detached")
        print(ray.get(Detached.remote().add.remote(1)))
        """,
        cluster.name,
    )
    assert (done.stdout, done.stderr) == ("[1]\n", "")
    store = ray.get_actor("store", namespace="kept")
    assert ray.get(store.add.remote(2)) == [1, 2]
    named = ray.util.list_named_actors(all_namespaces=True)
    assert {"name": "store", "namespace": "kept"} in named
    ray.kill(store)
    with pytest.raises(ValueError, match="store"):
        ray.get_actor("store", namespace="kept")


def test_an_actor_that_is_not_detached_ends_with_its_creator(place: Place) -> None:
    cluster = ray.init()
    code = """
        import sys
        import fibernb as ray

        ray.connect(sys.argv[1])

        class Empty:
            def ready(self):
                return True

        actor = ray.remote(Empty).options(name="mortal", namespace="kept").remote()
        print(ray.get(actor.ready.remote()))
    """
    done = place.run(code, cluster.name)
    assert (done.stdout, done.stderr) == ("True\n", "")

    def is_gone() -> bool:
        return {"name": "mortal", "namespace": "kept"} not in ray.util.list_named_actors(all_namespaces=True)

    wait_until(is_gone)
