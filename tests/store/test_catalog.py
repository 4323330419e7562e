"""The catalog: pins, keeping, spilling, coming back, and what is said when nothing can be done."""

from __future__ import annotations

import pytest

from fibernb.store.catalog import ORPHAN_S, PATIENCE_S
from fibernb.store.room import GROWTH_RETRY_S
from fibernb.wire.storetalk import Allocated, Full, Pinned, Place
from tests.store.player import P, Player

HUB, A, B = 0, 1, 2


@pytest.fixture
def player() -> Player:
    made = Player()
    made.attach(HUB, A, B)
    return made


def test_the_arena_grows_with_what_is_wanted(player: Player) -> None:
    request = player.allocate(A, 3)
    assert (A, request) not in player.answers
    player.work()
    answer = player.answers[A, request]
    assert isinstance(answer, Allocated)
    assert answer.offset == 0
    assert answer.block >> 40 == 5
    described = player.described()
    assert (described.used_bytes, described.warm_bytes, described.blocks) == (3 * P, 3 * P, 1)
    assert described.pinned == {"process 1": 3 * P}


def test_it_is_warmed_ahead() -> None:
    player = Player(arena_pages=100, ahead_pages=10)
    player.attach(HUB)
    player.work()
    assert player.described().warm_bytes == 100 * P  # one step is more than that
    assert player.described().used_bytes == 0


def test_who_needs_memory_does_not_wait_for_that_which_is_warmed_ahead() -> None:
    player = Player(arena_pages=100, ahead_pages=10)
    player.attach(HUB, A)
    request = player.allocate(A, 3)
    player.do_memory()
    assert isinstance(player.answers[A, request], Allocated)
    assert player.described().warm_bytes == 3 * P
    player.work()
    assert player.described().warm_bytes == 100 * P


def test_nothing_is_warmed_while_memory_is_given_back() -> None:
    player = Player(arena_pages=100, ahead_pages=10)
    player.attach(HUB)
    player.work()
    player.catalog.memory_short(player.now)
    player.pass_time(GROWTH_RETRY_S)
    player.attach(A)
    assert not player.ahead
    player.do_memory()
    assert player.warm_bytes == 0
    player.attach(B)
    player.work()
    assert player.described().warm_bytes == 100 * P


def test_pinned_blocks_stay_and_others_come_and_go(player: Player) -> None:
    first, second, third = (player.written(A, 5) for _ in range(3))
    player.pin(B, first)
    fourth = player.written(A, 5)
    assert player.described().spilled_bytes == 5 * P
    request = player.pin(B, second)
    player.work()
    answer = player.answers[B, request]
    assert isinstance(answer, Pinned)
    (place,) = answer.places
    assert player.content(place.offset, place.size_bytes) == {second}
    assert len({first, second, third, fourth}) == 4
    assert player.described().spilled_bytes == 5 * P
    assert player.described().pinned == {"process 2": 10 * P}


def test_the_least_recently_used_goes(player: Player) -> None:
    blocks = [player.written(A, 4) for _ in range(4)]
    player.pin(B, blocks[0])
    player.unpin(B, blocks[0])
    player.written(A, 4)
    answers = [player.answers[B, player.pin(B, block)] for block in (blocks[0], blocks[2], blocks[3])]
    assert all(isinstance(answer, Pinned) and answer.places for answer in answers)
    assert (B, player.pin(B, blocks[1])) not in player.answers  # it has to come back first


def test_several_blocks_are_pinned_together(player: Player) -> None:
    blocks = [player.written(A, 3) for _ in range(8)]
    request = player.pin(B, *blocks[:4])
    player.work()
    answer = player.answers[B, request]
    assert isinstance(answer, Pinned)
    assert [place.block for place in answer.places] == blocks[:4]
    assert all(player.content(place.offset, place.size_bytes) == {place.block} for place in answer.places)


def test_what_is_not_there_is_told_and_nothing_is_pinned(player: Player) -> None:
    block = player.written(A, 2)
    gone = player.written(A, 2)
    player.free(gone)
    assert player.answers[B, player.pin(B, block, gone, 99)] == Pinned(
        request=player.requests, places=[], lost=[gone, 99]
    )
    assert player.described().pinned == {}


def test_freed_blocks_stay_until_they_are_not_pinned(player: Player) -> None:
    block = player.written(A, 2)
    player.pin(B, block)
    player.pin(B, block)
    player.free(block)
    player.unpin(B, block)
    assert player.described().used_bytes == 2 * P
    player.unpin(B, block)
    assert player.described().used_bytes == 0
    player.unpin(B, block)  # once too often, and of one that has gone


def test_pins_end_with_their_link(player: Player) -> None:
    block = player.written(A, 2)
    player.pin(B, block)
    player.free(block)
    player.detach(B)
    assert player.described().blocks == 0


def test_what_a_lost_writer_left_goes_unless_the_hub_keeps_it(player: Player) -> None:
    kept, late, never = player.written(A, 2), player.written(A, 2, kept=False), player.written(A, 2, kept=False)
    player.detach(A)
    player.keep(late)
    assert player.catalog.next_due() == ORPHAN_S
    player.pass_time(ORPHAN_S)
    assert player.described().blocks == 2
    assert isinstance(player.answers[B, player.pin(B, kept, late)], Pinned)
    assert player.answers[B, player.pin(B, never)] == Pinned(request=player.requests, places=[], lost=[never])
    assert player.catalog.next_due() is None


def test_abandoned_blocks_go_but_only_the_writers_own(player: Player) -> None:
    block, kept = player.written(A, 2, kept=False), player.written(A, 2)
    player.abandon(B, block)
    player.abandon(A, kept)
    assert player.described().blocks == 2
    player.abandon(A, block)
    assert player.described().blocks == 1


def test_a_new_hub_retains_what_it_needs(player: Player) -> None:
    needed, old, young = player.written(A, 2), player.written(A, 2), player.written(A, 2, kept=False)
    player.catalog.retain([needed], player.now)
    assert player.described().blocks == 2
    player.detach(A)
    player.pass_time(ORPHAN_S)
    assert player.described().blocks == 1
    assert player.answers[B, player.pin(B, old)] == Pinned(request=player.requests, places=[], lost=[old])
    assert young != needed


def test_a_value_larger_than_everything_is_refused_at_once(player: Player) -> None:
    answer = player.answers[A, player.allocate(A, 17)]
    assert isinstance(answer, Full)
    assert "a value of 0.1 MB is larger than the whole object store" in answer.reason
    assert "raise store_bytes" in answer.reason


def test_when_everything_is_pinned_patience_ends_with_the_numbers(player: Player) -> None:
    requests = [player.allocate(link, 8) for link in (A, B)]
    player.work()
    request = player.allocate(A, 1)
    assert player.catalog.next_due() == PATIENCE_S
    player.pass_time(PATIENCE_S - 0.1)
    assert (A, request) not in player.answers
    player.pass_time(0.2)
    answer = player.answers[A, request]
    assert isinstance(answer, Full)
    assert "0.1 MB of 0.1 MB of shared memory are in use, by arrays that live in process 1: 0.0 MB" in answer.reason
    assert "are spilled to disk" in answer.reason
    assert len(requests) == 2
    assert player.described().blocks == 2


def test_room_that_comes_in_time_is_used(player: Player) -> None:
    for link in (A, B):
        player.allocate(link, 8)
    player.work()
    request = player.allocate(B, 4)
    player.detach(A)
    player.work()
    assert isinstance(player.answers[B, request], Allocated)


def test_a_link_that_goes_while_it_waits_leaves_nothing(player: Player) -> None:
    for _ in range(4):
        player.written(B, 4)
    player.allocate(A, 8)  # blocks move for it
    player.detach(A)
    player.work()
    player.pass_time(ORPHAN_S)
    described = player.described()
    assert described.blocks == 4
    assert described.used_bytes + described.spilled_bytes == 16 * P
    assert isinstance(player.answers[B, player.allocate(B, 2)], Allocated)


def test_a_disk_that_is_full_is_told(player: Player) -> None:
    player.disk_problem = "/tmp: No space left on device"
    blocks = [player.written(A, 4) for _ in range(4)]
    request = player.allocate(A, 8)
    player.work()
    player.pass_time(PATIENCE_S)
    answer = player.answers[A, request]
    assert isinstance(answer, Full)
    assert "nothing can be spilled to disk: /tmp: No space left on device" in answer.reason
    assert "spill_bytes" not in answer.reason
    pinned = player.answers[B, player.pin(B, *blocks)]
    assert isinstance(pinned, Pinned)
    assert all(player.content(place.offset, place.size_bytes) == {place.block} for place in pinned.places)


def test_the_quota_of_the_disk_holds() -> None:
    player = Player(spill_pages=4)
    player.attach(HUB, A)
    for _ in range(5):
        player.written(A, 4)
    request = player.allocate(A, 4)
    player.work()
    player.pass_time(PATIENCE_S)
    answer = player.answers[A, request]
    assert isinstance(answer, Full)
    assert answer.reason.endswith("raise store_bytes (FIBERNB_STORE_BYTES) or spill_bytes (FIBERNB_SPILL_BYTES)")
    assert player.described().spilled_bytes == 4 * P


def test_when_both_files_are_full_blocks_still_come_back() -> None:
    player = Player(spill_pages=4)
    player.attach(HUB, A, B)
    blocks = [player.written(A, size) for size in (1, 3, 8, 4, 4)]
    assert player.described().used_bytes + player.described().spilled_bytes == 20 * P
    for block in [*blocks, *reversed(blocks)]:
        request = player.pin(B, block)
        player.work()
        answer = player.answers[B, request]
        assert isinstance(answer, Pinned)
        assert [place.block for place in answer.places] == [block]
        player.unpin(B, block)
    assert isinstance(player.answers[A, _refused(player)], Full)


def _refused(player: Player) -> int:
    request = player.allocate(A, 8)
    player.work()
    player.pass_time(PATIENCE_S)
    return request


def test_a_block_that_cannot_be_read_back_is_lost(player: Player) -> None:
    blocks = [player.written(A, 8) for _ in range(3)]
    player.disk_problem = "Input/output error"
    request = player.pin(B, blocks[2], blocks[0])
    player.disk_problem = ""
    player.do_move()
    player.disk_problem = "Input/output error"
    player.work()
    assert player.answers[B, request] == Pinned(request=request, places=[], lost=[blocks[0]])
    player.disk_problem = ""
    player.work()
    assert player.described().pinned == {}
    assert player.described().blocks == 2


def test_pinned_while_it_moves_out_it_comes_back(player: Player) -> None:
    block = player.written(A, 16)
    request = player.allocate(A, 8)
    wait = player.pin(B, block)
    player.work()
    allocated = player.answers[A, request]
    assert isinstance(allocated, Allocated)
    assert (B, wait) not in player.answers
    player.unpin(A, allocated.block)
    player.work()
    answer = player.answers[B, wait]
    assert answer == Pinned(request=wait, places=[Place(block, 0, 16 * P)])
    assert player.content(0, 16 * P) == {block}


def test_who_waits_for_a_block_that_finds_no_room_is_told(player: Player) -> None:
    block = player.written(A, 16)
    player.allocate(A, 16)
    player.work()
    wait = player.pin(B, block)
    player.pass_time(0)
    player.pass_time(PATIENCE_S)
    assert isinstance(player.answers[B, wait], Full)
    assert player.described().spilled_bytes == 16 * P
    player.free(block)
    player.work()
    assert player.described().spilled_bytes == 0
    assert not player.disk


def test_freed_while_it_moves_it_goes_at_the_end(player: Player) -> None:
    block = player.written(A, 16)
    player.allocate(A, 8)
    player.free(block)
    player.work()
    assert player.described().spilled_bytes == 0
    assert player.described().used_bytes == 8 * P


def test_memory_that_the_system_refuses_is_tried_again(player: Player) -> None:
    player.memory_problem = "this host is short of memory: 9 of 10 MB are in use"
    request = player.allocate(A, 4)
    player.work()
    assert (A, request) not in player.answers
    player.memory_problem = ""
    due = player.catalog.next_due()
    assert due is not None
    player.pass_time(due)
    player.work()
    assert isinstance(player.answers[A, request], Allocated)


def test_memory_that_the_system_goes_on_refusing_is_named(player: Player) -> None:
    player.memory_problem = "this host is short of memory: 9 of 10 MB are in use"
    request = player.allocate(A, 4)
    player.work()
    for _ in range(100):
        player.pass_time(0.5)
        player.work()
    answer = player.answers[A, request]
    assert isinstance(answer, Full)
    assert "this host is short of memory" in answer.reason


def test_free_memory_at_the_end_is_given_back(player: Player) -> None:
    first, second = player.written(A, 2), player.written(A, 6)
    player.free(second)
    player.catalog.memory_short(player.now)
    player.sort()
    player.work()
    assert player.described().warm_bytes == player.warm_bytes == 2 * P
    player.catalog.memory_short(player.now)
    assert not player.catalog.take_orders()
    assert first


def test_a_withdrawn_request_leaves_nothing_wherever_it_stands(player: Player) -> None:
    early = player.allocate(A, 4)
    player.catalog.withdraw(A, early, player.now)
    player.work()
    late = player.allocate(A, 4)
    player.work()
    player.catalog.withdraw(A, late, player.now)
    player.catalog.withdraw(A, late, player.now)
    player.catalog.withdraw(A, 99, player.now)
    assert player.described().blocks == 0


def test_a_withdrawn_pin_keeps_the_block_and_other_pins(player: Player) -> None:
    block = player.written(A, 16, kept=False)
    player.pin(A, block)
    player.catalog.withdraw(A, player.pin(A, block), player.now)
    assert player.described().pinned == {"process 1": 16 * P}
    player.unpin(A, block)
    player.written(B, 4)
    waiting = player.pin(A, block)
    other = player.pin(B, block)
    player.catalog.withdraw(A, waiting, player.now)
    player.sort()
    player.work()
    assert (A, waiting) not in player.answers
    assert isinstance(player.answers[B, other], Pinned)


def test_a_request_that_failed_cannot_be_withdrawn(player: Player) -> None:
    block = player.written(A, 2)
    player.pin(A, block)
    lost = player.pin(A, block, 99)
    player.catalog.withdraw(A, lost, player.now)
    assert player.described().pinned == {"process 1": 2 * P}


def test_many_owners_are_not_all_named() -> None:
    player = Player(arena_pages=8, spill_pages=0)
    player.attach(*range(9))
    for link in range(1, 9):
        player.allocate(link, 1)
    player.work()
    request = player.allocate(0, 1)
    player.pass_time(0)
    player.pass_time(PATIENCE_S)
    answer = player.answers[0, request]
    assert isinstance(answer, Full)
    assert answer.reason.count("process") == 5
    assert "and 3 others; nothing can be spilled to disk. Drop" in answer.reason
