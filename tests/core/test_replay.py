from fibernb.core.messages import Remember
from fibernb.core.replay import Replay
from fibernb.model import Rank


def entry(*keys: str, ranks: list[Rank] | None = None, args: list[bytes] | None = None) -> Remember:
    return Remember(keys=keys, function=b"f", args=args or [b"x"], ranks=ranks)


def left(replay: Replay, rank: Rank) -> list[tuple[str, ...]]:
    return [each.message.keys for each in replay.for_rank(rank)]


def test_a_later_entry_takes_over_shared_keys() -> None:
    replay = Replay()
    assert replay.remember(entry("a", "b")) == []
    assert replay.remember(entry("b", "c")) == []
    assert left(replay, 0) == [("a", "b"), ("b", "c")]
    assert replay.remember(entry("a")) == [entry("a", "b")]
    assert left(replay, 0) == [("b", "c"), ("a",)]


def test_only_for_the_ranks_that_it_has() -> None:
    replay = Replay()
    replay.remember(entry("a"))
    replay.remember(entry("a", ranks=[1, 2]))
    assert left(replay, 0) == [("a",)]
    assert [each.message.ranks for each in replay.for_rank(1)] == [[1, 2]]


def test_entries_of_some_ranks_give_way_rank_by_rank() -> None:
    replay = Replay()
    old = entry("a", ranks=[0, 1])
    replay.remember(old)
    assert replay.remember(entry("a", ranks=[0])) == []
    assert left(replay, 2) == []
    assert replay.remember(entry("a", ranks=[1, 2])) == [old]
    assert replay.remember(entry("a")) == [entry("a", ranks=[0]), entry("a", ranks=[1, 2])]


def test_an_entry_that_comes_again_replaces_itself() -> None:
    replay = Replay()
    replay.remember(entry("a"))
    assert replay.remember(entry("a")) == [entry("a")]
    assert left(replay, 0) == [("a",)]


def test_an_entry_without_keys_stays() -> None:
    replay = Replay()
    replay.remember(entry())
    replay.remember(entry("a"))
    replay.remember(entry(ranks=[1]))
    assert left(replay, 0) == [(), ("a",)]
    assert left(replay, 1) == [(), ("a",), ()]


def test_arguments_by_rank() -> None:
    replay = Replay()
    replay.remember(entry("a", ranks=[4, 2], args=[b"four", b"two"]))
    replay.remember(entry("b", ranks=[4, 2], args=[b"same"]))
    replay.remember(entry("c", args=[b"all"]))
    assert [each.args_for(2) for each in replay.for_rank(2)] == [b"two", b"same", b"all"]
    assert [each.args_for(4) for each in replay.for_rank(4)] == [b"four", b"same", b"all"]
