from fibernb.core.messages import CallActor, CreateActor, Fetch, PutObjects, Release
from fibernb.core.settings import CoreSettings
from fibernb.model import DEFAULT_OPTIONS, Call, Result, TaskOptions
from tests.core.bench import Bench, F, G, task
from tests.core.invariants import board_of, sizes


def stored(number: int, *more: Result, block: int = 0) -> Result:
    return Result(task(number), b"head", more=more, blocks=(block or number,))


def lineages(bench: Bench) -> dict[int, set[int]]:
    """Outputs by task, both by number."""
    found = board_of(bench.scheduler).objects.lineages.items()
    return {id_ - task(0): {output - task(0) for output in lineage.outputs} for id_, lineage in found}


def test_stored_values_have_a_lineage_and_its_inputs_stay_known() -> None:
    bench = Bench(seats=1)
    bench.say(PutObjects(objects=[Result(task(1), b"put", blocks=(1,)), Result(task(2), b"small")]))
    bench.submit(3, deps=[task(1)], refs=[task(2)])
    bench.answer(1, stored(3))
    bench.say(Release(objects=[task(1), task(2)]))
    assert lineages(bench) == {3: {3}}
    entries = board_of(bench.scheduler).objects.entries
    assert (entries[task(1)].result, entries[task(2)].result) == (None, Result(task(2), b"small"))
    assert bench.blocks() == ([], [1])
    bench.say(Release(objects=[task(3)]))
    bench.acknowledge(1)
    assert not any(sizes(bench.scheduler).values())


def test_only_stored_values_of_several_have_it() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(num_returns=3))
    bench.answer(1, Result(task(1), b"small", more=(stored(2), Result(task(3), b"[ref]", refs=(task(2),)))))
    assert lineages(bench) == {1: {2, 3}}


def test_what_cannot_be_run_again_has_none() -> None:
    bench = Bench(seats=1)
    bench.submit(1, options=TaskOptions(max_retries=0))
    bench.answer(1, stored(1))
    bench.pin(2, [0])
    bench.answer(1, stored(2))
    bench.say(CreateActor(actor=task(3), function=F, args=b"make"))
    bench.seat_all()
    bench.answer(2, Result(task(3), b""))
    bench.say(CallActor(actor=task(3), function=G, calls=[Call(task(4), b"args")]))
    bench.answer(2, stored(4))
    assert board_of(bench.scheduler).objects.blocks.keys() == {1, 2, 4}
    assert lineages(bench) == {}


def test_making_again_counts_as_an_attempt_of_the_same_lineage() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.answer(1, stored(1))
    bench.say(Fetch(objects=[task(1)], lost=[1]))
    bench.answer(1, stored(1, block=9))
    assert lineages(bench) == {1: {1}}
    assert board_of(bench.scheduler).objects.lineages[task(1)].attempts == 1


def test_a_value_that_nobody_holds_needs_none() -> None:
    bench = Bench(seats=1)
    bench.submit(1)
    bench.done(1, task(1))
    assert lineages(bench) == {}


def test_lineage_is_bounded() -> None:
    bench = Bench(seats=1, settings=CoreSettings(max_lineage_bytes=2500))
    for number in range(1, 5):
        bench.submit(number, deps=[task(number - 1)] if number > 1 else [], options=DEFAULT_OPTIONS)
        bench.answer(1, stored(number))
    assert set(lineages(bench)) == {3, 4}
