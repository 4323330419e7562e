"""Seeded runs of the whole in virtual time: whatever breaks, every call gets one answer and nothing that had finished
runs again.
"""

from __future__ import annotations

import pytest

from fibernb.model import Outcome
from tests.core.invariants import check, sizes
from tests.sim.world import Plan, SimClient, World

TROUBLE = {
    "calm": Plan(),
    "engines die": Plan(engine_deaths=2.0, start_failures=0.2),
    "links break": Plan(client_breaks=2.0, engine_breaks=0.5),
    "hub dies": Plan(hub_deaths=0.5),
    "cancels": Plan(cancels=20.0, engine_deaths=0.5),
    "scales": Plan(rescales=2.0, seats=6),
    "actors": Plan(actors=3, engine_deaths=2.0, kills=0.5, start_failures=0.1),
    "actors, and the hub dies": Plan(actors=3, hub_deaths=0.5, engine_deaths=0.5, kills=0.2),
    "nested": Plan(nesting=4, seats=2, engine_deaths=0.5),
    "nested, and the hub dies": Plan(nesting=3, seats=2, hub_deaths=0.3, client_breaks=0.5, cancels=2.0),
    "everything": Plan(
        engine_deaths=1.0,
        start_failures=0.1,
        client_breaks=1.0,
        engine_breaks=0.3,
        hub_deaths=0.3,
        cancels=3.0,
        rescales=0.5,
        actors=2,
        kills=0.2,
        nesting=2,
    ),
}


def set_up(seed: int, plan: Plan) -> World:
    world = World(seed, plan)
    node, draw = world.node, world.random

    def some_engine_dies() -> None:
        if node.engines:
            node.die(draw.choice(list(node.engines)), -11)

    def some_engine_breaks_off() -> None:
        if node.engines and world.hub is not None:
            world.hub.unreachable(node.engines[draw.choice(list(node.engines))])

    def some(action: str) -> None:
        getattr(draw.choice(world.clients), action)()

    world.trouble(plan.engine_deaths, some_engine_dies)
    world.trouble(plan.engine_breaks, some_engine_breaks_off)
    world.trouble(plan.hub_deaths, world.kill_hub)
    world.trouble(plan.client_breaks, lambda: some("break_off"))
    world.trouble(plan.cancels, lambda: some("cancel"))
    world.trouble(plan.rescales, world.clients[0].rescale)
    world.trouble(plan.kills, lambda: some("kill_actor"))
    world.trouble(5.0, lambda: some("let_go"))
    for client in world.clients * plan.actors:
        world.after(world.random.uniform(0.0, plan.duration_s / 2), client.make_actor)
    for client in world.clients:
        schedule(world, client)
    return world


def schedule(world: World, client: SimClient) -> None:
    """Let a client submit its share of the tasks over the time of trouble."""
    left = world.plan.tasks // world.plan.clients
    while left:
        count = min(left, world.random.choice([1, 1, 5, 40, world.plan.tasks // 200]))
        world.after(world.random.uniform(0.0, world.plan.duration_s), lambda count=count: client.submit(count))  # type: ignore[misc]
        left -= count


def finish(world: World) -> None:
    """Run to the end, and see that everything has been answered and nothing is left."""
    world.run_to(world.plan.duration_s)
    world.run(lambda: not any(client.pending for client in world.clients))
    for client in world.clients:
        client.let_go()
    world.run_to(world.now + 5.0)  # who was away has come back
    for client in world.clients:
        client.end_actors()
    world.run_to(world.now + 80.0)
    assert world.hub is not None
    assert not any(sizes(world.hub.scheduler).values()), sizes(world.hub.scheduler)
    assert not any(engine.kept for engine in world.node.engines.values()), "an engine keeps what has arrived"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", TROUBLE)
def test_every_call_gets_one_answer(name: str, seed: int) -> None:
    world = set_up(seed, TROUBLE[name])
    finish(world)
    for client in world.clients:
        for id_, result in client.answers.items():
            assert result.outcome is not Outcome.OK or result.value == b"value of %d" % id_


LARGE = Plan(
    seats=1000,
    tasks=100_000,
    clients=4,
    duration_s=10.0,
    engine_deaths=20.0,
    client_breaks=0.3,
    engine_breaks=2.0,
    hub_deaths=0.1,
    cancels=20.0,
    run_s=(0.001, 0.02, 0.3),
    chains=False,
    check=False,
)


def test_a_thousand_engines_and_a_hundred_thousand_calls() -> None:
    world = set_up(2026, LARGE)
    finish(world)
    assert sum(len(client.answers) for client in world.clients) == LARGE.tasks
    assert world.hub is not None
    check(world.hub.scheduler)
