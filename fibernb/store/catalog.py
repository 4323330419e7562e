"""Which blocks there are, where they stand, who needs them, and what has to move. Does no I/O and reads no clock.

A block lives while the hub keeps it or, before the hub has heard of it, while its writer's link lives; and as long as
some process has it pinned. Pinned blocks stay where they are. When the arena is full, what has been unused for longest
moves to the spill file, from a stretch of the arena that is long enough (see `fibernb.store.windows`).

What comes in are the messages of the links and the ends of orders; what goes out are `orders`, to be carried out in
their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from fibernb.model import BlockId
from fibernb.store import reasons
from fibernb.store.allocator import Extent
from fibernb.store.blocks import Block, Blocks, Request
from fibernb.store.claims import Claim, Wait
from fibernb.store.orders import Answer, BringBack, Grow, LinkId, Order, Punch, Shrink, SpillOut
from fibernb.store.room import Limits, Room
from fibernb.wire.storetalk import Allocated, Described, Full, Pinned, Place

PATIENCE_S: Final = 5.0  # until a claim that finds no room, nor anything to move, fails
ORPHAN_S: Final = 10.0  # in which the hub may still say that it keeps blocks whose writer has gone


class Catalog:
    """The state of one store.

    Parameters
    ----------
    generation : makes its blocks different from those of other stores of the host.
    """

    def __init__(self, generation: int, limits: Limits) -> None:
        self.orders: list[Order] = []
        self._blocks = Blocks(generation)
        self._room = Room(limits)
        self._claims: list[Claim] = []
        self._waits: list[Wait] = []
        self._orphans: deque[tuple[float, BlockId]] = deque()  # when they go
        self._moves = 0  # copies between the arena and the spill file that are under way

    def take_orders(self) -> list[Order]:
        orders, self.orders = self.orders, []
        return orders

    # ---- links -------------------------------------------------------------------------------------------

    def attach(self, link: LinkId, owner: str, now: float) -> None:
        self._blocks.attach(link, owner)
        self._warm_ahead(now)

    def detach(self, link: LinkId, now: float) -> None:
        """A process has gone: its pins end, and what it wrote goes unless the hub keeps it soon."""
        self._waits = [wait for wait in self._waits if wait.link != link]
        for block in self._blocks.detach(link):
            if block.home is None and not block.kept:
                self._orphans.append((now + ORPHAN_S, block.id))
            self._drop_if_unneeded(block)
        self._advance(now)

    # ---- messages ----------------------------------------------------------------------------------------

    def allocate(self, link: LinkId, request: int, size_bytes: int, now: float) -> None:
        if size_bytes > self._room.limits.arena_bytes:
            self._refuse(link, request, reasons.too_large(size_bytes, self._room))
            return
        block = self._blocks.make(size_bytes, link)
        block.claimed = True
        self._blocks.links[link].last = Request(request, (block,), is_new=True)
        self._claims.append(Claim(block, link, request))
        self._advance(now)

    def pin(self, link: LinkId, request: int, blocks: list[BlockId], now: float) -> None:
        found = [block for block in self._blocks.known(blocks) if block.wanted]
        if len(found) < len(blocks):
            there = {block.id for block in found}
            lost = [block for block in blocks if block not in there]
            self._tell(link, Pinned(request=request, places=[], lost=lost))
            return
        for block in found:
            self._blocks.pin(link, block)
        self._blocks.links[link].last = Request(request, tuple(found))
        away = {block.id for block in found if not block.is_settled}
        wait = Wait(link, request, found, away)
        if not away:
            self._tell_pinned(wait)
            return
        self._waits.append(wait)
        for block in found:
            self._bring_back(block)
        self._advance(now)

    def unpin(self, link: LinkId, blocks: Iterable[BlockId], now: float) -> None:
        for block in self._blocks.known(blocks):
            self._blocks.unpin(link, block)
            self._drop_if_unneeded(block)
        self._advance(now)

    def abandon(self, link: LinkId, blocks: Iterable[BlockId], now: float) -> None:
        """The writer will not use these blocks, which are not kept yet."""
        for block in self._blocks.known(blocks):
            if block.home == link and not block.kept:
                block.wanted = False
                self._drop_if_unneeded(block)
        self._advance(now)

    def withdraw(self, link: LinkId, request: int, now: float) -> None:
        """Undo the pins of a link's last request, and forget the block if it was to allocate one."""
        last = self._blocks.links[link].last
        if last.number == request:
            self._waits = [wait for wait in self._waits if (wait.link, wait.request) != (link, request)]
            self._undo(link, request, last.blocks)
            if last.is_new:
                self.abandon(link, [block.id for block in last.blocks], now)
            self._advance(now)

    def keep(self, blocks: Iterable[BlockId]) -> None:
        for block in self._blocks.known(blocks):
            block.kept = True
            self._blocks.set_home(block, None)

    def free(self, blocks: Iterable[BlockId], now: float) -> None:
        for block in self._blocks.known(blocks):
            block.wanted = False
            self._drop_if_unneeded(block)
        self._advance(now)

    def retain(self, blocks: Iterable[BlockId], now: float) -> None:
        """A new hub needs these; what its predecessor has kept beside them goes."""
        retained = frozenset(blocks)
        self.keep(retained)
        self.free([block.id for block in self._blocks if block.kept and block.id not in retained], now)

    def describe(self, link: LinkId, request: int) -> None:
        room = self._room
        self._tell(
            link,
            Described(
                request=request,
                arena_bytes=room.limits.arena_bytes,
                used_bytes=room.arena.used_bytes,
                warm_bytes=room.arena.size_bytes,
                spilled_bytes=room.spill.used_bytes,
                spill_limit_bytes=room.limits.spill_bytes,
                blocks=len(self._blocks),
                pinned=self._blocks.pinned_bytes(),
            ),
        )

    # ---- time and memory ---------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """When `tick` has something to do next, if ever."""
        times = [claim.deadline for claim in self._claims if claim.deadline is not None]
        times += [self._orphans[0][0]] if self._orphans else []
        if self._claims and self._room.growth_problem:
            times.append(self._room.retry_at)
        return min(times, default=None)

    def tick(self, now: float) -> None:
        while self._orphans and self._orphans[0][0] <= now:
            for block in self._blocks.known([self._orphans.popleft()[1]]):
                if not block.kept:
                    block.wanted = False
                    self._drop_if_unneeded(block)
        self._advance(now)

    def memory_short(self, now: float) -> None:
        """The system needs memory: give back what is not in use at the end of the arena, and warm nothing for now."""
        size = self._room.shrink(now)
        if size is not None:
            self.orders.append(Shrink(size_bytes=size))

    # ---- ends of orders ----------------------------------------------------------------------------------

    def grown(self, size_bytes: int, problem: str, now: float, *, ahead: bool) -> None:
        """The arena has grown to this size, which is less than was ordered if there is a problem."""
        self._room.grown(size_bytes, problem, now, ahead=ahead)
        self._advance(now)
        self._warm_ahead(now)

    def shrunk(self) -> None:
        self._room.shrunk()

    def spilled(self, id_: BlockId, problem: str, now: float) -> None:
        block = self._blocks.get(id_)
        assert block is not None  # a block that moves is not forgotten
        block.moving = False
        if not problem:
            block.offset = None
        else:
            self._leave_spill(block)
            self._room.spill_problem = problem
        claim = next(claim for claim in self._claims if id_ in claim.leaving)
        claim.leaving.discard(id_)
        if not claim.leaving:
            self._close_window(claim, now)
        self._settle_block(block)
        self._advance(now)

    def restored(self, id_: BlockId, problem: str, now: float) -> None:
        block = self._blocks.get(id_)
        assert block is not None
        block.moving = False
        if problem:
            assert block.offset is not None
            self._room.arena.free(block.offset)
            block.offset = None
            self._lose(block)
        else:
            self._leave_spill(block)
        self._settle_block(block)
        self._advance(now)

    # ---- room --------------------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        """Give room to what waits for it, the oldest first."""
        if self._claims:
            self._claims = [claim for claim in self._claims if not self._is_done(claim, now)]

    def _is_done(self, claim: Claim, now: float) -> bool:
        if claim.window is not None:
            return False
        if claim.is_idle:
            self._withdraw(claim)
            return True
        offset = self._room.arena.allocate(claim.block.size_bytes)
        if offset is not None:
            self._place(claim, offset, now)
            return True
        if self._makes_room(claim, now):
            return False
        if claim.deadline is None:
            claim.deadline = now + PATIENCE_S
        if now < claim.deadline:
            return False
        self._fail(claim)
        return True

    def _makes_room(self, claim: Claim, now: float) -> bool:
        """Whether something is under way that may end with room for this one."""
        size_bytes = claim.block.size_bytes
        target = self._room.growth_for(size_bytes, now)
        if target is not None:
            if target:
                self.orders.append(Grow(size_bytes=target))
            return True
        claim.window = self._room.window_for(size_bytes, self._blocks, exchange=claim.link is None)
        if claim.window is not None:
            claim.deadline = None
            claim.leaving.update(claim.window.blocks)
            for block in self._blocks.known(claim.window.blocks):
                self._spill_out(block)
        return self._moves > 0

    def _warm_ahead(self, now: float) -> None:
        target = self._room.growth_ahead(now)
        if target is not None:
            self.orders.append(Grow(size_bytes=target, ahead=True))

    def _spill_out(self, block: Block) -> None:
        assert block.offset is not None
        assert block.spill is not None
        block.moving = True
        self._moves += 1
        self.orders.append(SpillOut(block=block.id, source=Extent(block.offset, block.size_bytes), target=block.spill))

    def _place(self, claim: Claim, offset: int, now: float) -> None:
        """The block has room: a new one is its writer's to fill, another is copied back."""
        block = claim.block
        block.offset, block.claimed = offset, False
        if claim.link is not None:
            self._tell(claim.link, Allocated(request=claim.request, block=block.id, offset=offset))
        else:
            assert block.spill is not None
            block.moving = True
            self._moves += 1
            self.orders.append(BringBack(block=block.id, source=Extent(block.spill, block.size_bytes), target=offset))
        self._warm_ahead(now)

    def _close_window(self, claim: Claim, now: float) -> None:
        """Everything has left the window, or failed to: it is the claim's now, or room for everybody."""
        window, claim.window = claim.window, None
        assert window is not None
        staying = [block.offset for block in self._blocks.known(window.blocks) if block.offset is not None]
        self._room.close_window(window, staying)
        if not staying and not claim.is_idle:
            self._room.take(window.offset, claim.block.size_bytes)
            self._claims.remove(claim)
            self._place(claim, window.offset, now)

    def _leave_spill(self, block: Block) -> None:
        self.orders.append(Punch(extent=self._room.leave_spill(block)))

    # ---- ends --------------------------------------------------------------------------------------------

    def _withdraw(self, claim: Claim) -> None:
        """Nobody wants the room any more; a new block has no content then."""
        claim.block.claimed = False
        claim.block.wanted &= claim.link is None
        self._drop_if_unneeded(claim.block)

    def _fail(self, claim: Claim) -> None:
        block = claim.block
        reason = reasons.full(block.size_bytes, self._room, self._blocks.pinned_bytes())
        if claim.link is not None:
            self._undo(claim.link, claim.request, [block])
            self._refuse(claim.link, claim.request, reason)
        self._end_waits(block, lambda wait: Full(request=wait.request, reason=reason))
        self._withdraw(claim)

    def _lose(self, block: Block) -> None:
        """The block could not be read back."""
        block.wanted = False
        self._end_waits(block, lambda wait: Pinned(request=wait.request, places=[], lost=[block.id]))

    def _end_waits(self, block: Block, answer: Callable[[Wait], Full | Pinned]) -> None:
        """Answer those who wait for the block, and undo their pins."""
        ended = [wait for wait in self._waits if block.id in wait.away]
        self._waits = [wait for wait in self._waits if block.id not in wait.away]
        for wait in ended:
            self._tell(wait.link, answer(wait))
            self._undo(wait.link, wait.request, wait.blocks)

    def _undo(self, link: LinkId, request: int, blocks: Iterable[Block]) -> None:
        """The pins of a request end; it cannot be withdrawn any more."""
        if self._blocks.links[link].last.number == request:
            self._blocks.links[link].last = Request()
        for block in blocks:
            self._blocks.unpin(link, block)
            self._drop_if_unneeded(block)

    def _settle_block(self, block: Block) -> None:
        """A move has ended: tell those who wait for the block, or bring it back for them."""
        self._moves -= 1
        for wait in [wait for wait in self._waits if block.id in wait.away]:
            if block.is_settled:
                wait.away.discard(block.id)
            if not wait.away:
                self._waits.remove(wait)
                self._tell_pinned(wait)
        if block.pins:
            self._bring_back(block)
        self._drop_if_unneeded(block)

    def _bring_back(self, block: Block) -> None:
        if block.offset is None and not block.claimed:
            block.claimed = True
            self._claims.append(Claim(block))

    def _drop_if_unneeded(self, block: Block) -> None:
        if block.wanted or block.pins or block.moving or block.claimed or self._blocks.get(block.id) is None:
            return
        if block.offset is not None:
            self._room.arena.free(block.offset)
        if block.spill is not None:
            self._leave_spill(block)
        self._blocks.forget(block)

    # ---- answers -----------------------------------------------------------------------------------------

    def _tell(self, link: LinkId, message: Allocated | Full | Pinned | Described) -> None:
        self.orders.append(Answer(link=link, message=message))

    def _refuse(self, link: LinkId, request: int, reason: str) -> None:
        self._tell(link, Full(request=request, reason=reason))

    def _tell_pinned(self, wait: Wait) -> None:
        places = [Place(block.id, block.offset or 0, block.size_bytes) for block in wait.blocks]
        self._tell(wait.link, Pinned(request=wait.request, places=places))
