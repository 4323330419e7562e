"""The catalog under random processes, with work that ends late: nobody's memory is ever touched, nothing leaks."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fibernb.store.catalog import ORPHAN_S, PATIENCE_S
from fibernb.store.orders import LinkId
from fibernb.wire.storetalk import Allocated, Full, Pinned
from tests.store.player import P, Player

HUB = 0
LINKS = st.integers(1, 3)


class CatalogMachine(RuleBasedStateMachine):
    """A model of who has what pinned where, as the answers have told."""

    def __init__(self) -> None:
        super().__init__()
        self.player = Player(arena_pages=12, spill_pages=24, ahead_pages=2)
        self.player.attach(HUB, 1, 2, 3)
        self.pins: dict[LinkId, list[tuple[int, int, int]]] = {1: [], 2: [], 3: []}  # block, offset, size
        self.open: dict[tuple[LinkId, int], int] = {}  # requests without an answer
        self.known: list[int] = []  # blocks that were written
        self.freed: set[int] = set()
        self.settled: set[int] = set()  # requests that are not withdrawn any more

    def take_answers(self) -> None:
        for key in [key for key in self.open if key in self.player.answers]:
            answer = self.player.answers[key]
            if isinstance(answer, Allocated):
                self.pins[key[0]].append((answer.block, answer.offset, self.open[key]))
                self.known.append(answer.block)
            elif isinstance(answer, Pinned):
                self.pins[key[0]] += [(place.block, place.offset, place.size_bytes) for place in answer.places]
            del self.open[key]

    @rule(link=LINKS, pages=st.integers(1, 14))
    def allocate(self, link: LinkId, pages: int) -> None:
        self.open[link, self.player.allocate(link, pages)] = pages * P

    @precondition(lambda self: self.known)
    @rule(link=LINKS, data=st.data())
    def pin(self, link: LinkId, data: st.DataObject) -> None:
        blocks = data.draw(st.lists(st.sampled_from(self.known), min_size=1, max_size=3, unique=True))
        self.open[link, self.player.pin(link, *blocks)] = 0

    @precondition(lambda self: any(self.pins.values()))
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        link = data.draw(st.sampled_from([link for link, pins in self.pins.items() if pins]))
        pin = data.draw(st.sampled_from(self.pins[link]))
        self.pins[link].remove(pin)
        self.settled.add(self.player.catalog._blocks.links[link].last.number)  # an interrupt comes before that
        self.player.unpin(link, pin[0])

    @rule(link=LINKS)
    def withdraw(self, link: LinkId) -> None:
        """An interrupt: what was asked last is undone, wherever it stands."""
        self.take_answers()
        request = self.player.catalog._blocks.links[link].last.number
        if not request or request in self.settled:
            return
        answer = self.player.answers.get((link, request))
        if isinstance(answer, Allocated):
            self.pins[link] = [pin for pin in self.pins[link] if pin[0] != answer.block]
        elif isinstance(answer, Pinned):
            for place in answer.places:
                self.pins[link].remove((place.block, place.offset, place.size_bytes))
        self.open.pop((link, request), None)
        self.player.catalog.withdraw(link, request, self.player.now)
        self.player.sort()

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def keep(self, data: st.DataObject) -> None:
        self.player.keep(data.draw(st.sampled_from(self.known)))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(self.known))
        self.freed.add(block)
        self.player.free(block)

    @precondition(lambda self: self.known)
    @rule(link=LINKS, data=st.data())
    def abandon(self, link: LinkId, data: st.DataObject) -> None:
        self.player.abandon(link, data.draw(st.sampled_from(self.known)))

    @rule(link=LINKS)
    def detach(self, link: LinkId) -> None:
        self.take_answers()
        self.pins[link] = []
        self.open = {key: size for key, size in self.open.items() if key[0] != link}
        self.player.detach(link)
        self.player.attach(link)

    @rule()
    def memory(self) -> None:
        self.player.do_memory()

    @rule()
    def ahead(self) -> None:
        self.player.do_ahead()

    @rule()
    def move(self) -> None:
        self.player.do_move()

    @rule()
    def memory_short(self) -> None:
        self.player.catalog.memory_short(self.player.now)
        self.player.sort()

    @rule(problem=st.booleans())
    def disk(self, problem: bool) -> None:
        self.player.disk_problem = "the disk is full" if problem else ""

    @rule(problem=st.booleans())
    def system(self, problem: bool) -> None:
        self.player.memory_problem = "memory is short" if problem else ""

    @rule(seconds=st.sampled_from([0.1, 1.0, PATIENCE_S, ORPHAN_S]))
    def time(self, seconds: float) -> None:
        self.player.pass_time(seconds)

    @invariant()
    def pinned_memory_is_untouched(self) -> None:
        self.take_answers()
        for pins in self.pins.values():
            for block, offset, size in pins:
                assert self.player.content(offset, size) == {block}

    @invariant()
    def limits_hold(self) -> None:
        described = self.player.described()
        assert described.used_bytes <= described.warm_bytes <= 12 * P
        assert described.spilled_bytes <= (24 + 12) * P  # what comes back may be exchanged for all of the arena

    def teardown(self) -> None:
        self.player.disk_problem = self.player.memory_problem = ""
        self.settle()
        assert not self.open, "everything has been answered"
        self.every_block_that_is_there_can_be_read()
        self.player.free(*self.known)
        for link in self.pins:
            self.player.detach(link)
        self.settle()
        described = self.player.described()
        assert (described.blocks, described.used_bytes, described.spilled_bytes) == (0, 0, 0)
        assert not self.player.disk

    def settle(self) -> None:
        for _ in range(60):
            self.player.work()
            self.player.pass_time(1.0)
        self.player.work()
        self.take_answers()

    def every_block_that_is_there_can_be_read(self) -> None:
        for link, pins in self.pins.items():
            self.player.unpin(link, *(block for block, _, _ in pins))
            pins.clear()
        for block in self.known:
            request = self.player.pin(1, block)
            self.settle()
            answer = self.player.answers[1, request]
            assert not isinstance(answer, Full)
            assert isinstance(answer, Pinned)
            for place in answer.places:
                assert self.player.content(place.offset, place.size_bytes) == {block}
            if answer.places:
                self.player.unpin(1, block)
            if block in self.freed:
                assert answer.lost == [block]


CatalogMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCatalog = CatalogMachine.TestCase
