"""A catalog with an arena and a disk of numbered pages instead of memory, whose work is done when the test says so."""

from __future__ import annotations

from collections import deque

from fibernb.store.allocator import PAGE_BYTES, Extent, rounded
from fibernb.store.catalog import Catalog
from fibernb.store.orders import Answer, BringBack, Grow, LinkId, Order, Punch, Shrink, SpillOut
from fibernb.store.room import Limits
from fibernb.wire.storetalk import Allocated, Described, Full, Pinned

P = PAGE_BYTES
GENERATION = 5


class Player:
    """Every page holds the number of the block that was written there."""

    def __init__(self, arena_pages: int = 16, spill_pages: int = 64, ahead_pages: int = 0) -> None:
        limits = Limits(arena_bytes=arena_pages * P, spill_bytes=spill_pages * P, ahead_bytes=ahead_pages * P)
        self.catalog = Catalog(GENERATION, limits)
        self.now = 0.0
        self.arena: dict[int, int] = {}
        self.disk: dict[int, int] = {}
        self.warm_bytes = 0
        self.memory: deque[Grow | Shrink] = deque()
        self.ahead: deque[Grow] = deque()
        self.moves: deque[SpillOut | BringBack | Punch] = deque()
        self.answers: dict[tuple[LinkId, int], Allocated | Full | Pinned | Described] = {}
        self.requests = 0
        self.sizes: dict[int, int] = {}  # by request
        self.disk_problem = ""
        self.memory_problem = ""

    # ---- what processes do -------------------------------------------------------------------------------

    def attach(self, *links: LinkId) -> None:
        for link in links:
            self.catalog.attach(link, f"process {link}", self.now)
        self.sort()

    def request(self) -> int:
        self.requests += 1
        return self.requests

    def allocate(self, link: LinkId, pages: int) -> int:
        request = self.request()
        self.sizes[request] = pages * P
        self.catalog.allocate(link, request, pages * P, self.now)
        self.sort()
        return request

    def pin(self, link: LinkId, *blocks: int) -> int:
        request = self.request()
        self.catalog.pin(link, request, list(blocks), self.now)
        self.sort()
        return request

    def unpin(self, link: LinkId, *blocks: int) -> None:
        self.catalog.unpin(link, blocks, self.now)
        self.sort()

    def free(self, *blocks: int) -> None:
        self.catalog.free(blocks, self.now)
        self.sort()

    def keep(self, *blocks: int) -> None:
        self.catalog.keep(blocks)
        self.sort()

    def abandon(self, link: LinkId, *blocks: int) -> None:
        self.catalog.abandon(link, blocks, self.now)
        self.sort()

    def detach(self, link: LinkId) -> None:
        self.catalog.detach(link, self.now)
        self.sort()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.catalog.tick(self.now)
        self.sort()

    def written(self, link: LinkId, pages: int, kept: bool = True) -> int:
        """A block that was allocated, written, unpinned and perhaps kept."""
        request = self.allocate(link, pages)
        self.work()
        answer = self.answers[link, request]
        assert isinstance(answer, Allocated), answer
        self.unpin(link, answer.block)
        if kept:
            self.keep(answer.block)
        return answer.block

    def described(self) -> Described:
        link, request = 0, self.request()
        self.catalog.describe(link, request)
        self.sort()
        answer = self.answers.pop((link, request))
        assert isinstance(answer, Described)
        return answer

    # ---- what the store does -----------------------------------------------------------------------------

    def sort(self) -> None:
        for order in self.catalog.take_orders():
            self.take(order)

    def take(self, order: Order) -> None:
        if isinstance(order, Answer):
            key = order.link, order.message.request
            assert key not in self.answers
            self.answers[key] = order.message
            if isinstance(order.message, Allocated):
                self.fill(order.message.offset, self.sizes[order.message.request], order.message.block)
        elif isinstance(order, Grow) and order.ahead:
            self.ahead.append(order)
        elif isinstance(order, Grow | Shrink):
            self.memory.append(order)
        else:
            self.moves.append(order)

    def fill(self, offset: int, size_bytes: int, block: int) -> None:
        assert offset + size_bytes <= self.warm_bytes
        self.arena.update((page, block) for page in pages(Extent(offset, size_bytes)))

    def work(self) -> None:
        """Until nothing is left to be done."""
        while self.memory or self.ahead or self.moves:
            self.do_memory()
            self.do_ahead()
            self.do_move()

    def do_memory(self) -> None:
        if not self.memory:
            return
        order = self.memory.popleft()
        if isinstance(order, Shrink):
            self.warm_bytes = min(self.warm_bytes, order.size_bytes)
            self.catalog.shrunk()
        else:
            self.grow(order)
        self.sort()

    def do_ahead(self) -> None:
        if self.ahead:
            self.grow(self.ahead.popleft())
            self.sort()

    def grow(self, order: Grow) -> None:
        if not self.memory_problem:
            self.warm_bytes = max(self.warm_bytes, order.size_bytes)
        self.catalog.grown(self.warm_bytes, self.memory_problem, self.now, ahead=order.ahead)

    def do_move(self) -> None:
        if not self.moves:
            return
        order = self.moves.popleft()
        if isinstance(order, Punch):
            for page in pages(order.extent):
                self.disk.pop(page, None)
        elif isinstance(order, SpillOut):
            if not self.disk_problem:
                copy(self.arena, order.source, self.disk, order.target)
            self.catalog.spilled(order.block, self.disk_problem, self.now)
        else:
            if not self.disk_problem:
                copy(self.disk, order.source, self.arena, order.target)
            self.catalog.restored(order.block, self.disk_problem, self.now)
        self.sort()

    def content(self, offset: int, size_bytes: int) -> set[int | None]:
        return {self.arena.get(page) for page in pages(Extent(offset, size_bytes))}


def pages(extent: Extent) -> range:
    return range(extent.offset // P, (extent.offset + rounded(extent.size_bytes)) // P)


def copy(source: dict[int, int], extent: Extent, target: dict[int, int], offset: int) -> None:
    for index, page in enumerate(pages(extent)):
        target[offset // P + index] = source[page]
