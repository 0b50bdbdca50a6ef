"""Slots: how many agents may have a streaming model or a running tool at one time.

An agent gives its slot back while it waits for another, so that a tree of any depth runs on one
slot. The queue is fair: first come, first served.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prsm_core.engine.state import Staged


class Slots:
    """Owns the free slots and the queue for them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._let_go: list[Staged] = []  # acts that tell of slots which are free again

    def take_free(self) -> bool:
        """Take a slot if one is free and nobody waits in line; whether it did."""
        if self.in_use >= self.limit or self._queue:
            return False
        self.in_use += 1
        return True

    async def acquire(self) -> None:
        """Take a slot, waiting in line for it."""
        if self.take_free():
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # it was given in the same moment: pass it on
            elif turn in self._queue:  # a release may have skipped it already
                self._queue.remove(turn)
            raise

    def untold(self) -> list[Staged]:
        """Return what must be written before the ledger may have the newest holder at work.

        It is what tells that others have let go, as far as it is still to be written.
        """
        self._let_go = [act for act in self._let_go if not act.is_settled]
        return self._let_go if self.in_use + len(self._let_go) > self.limit else []

    def release(self, act: Staged | None = None) -> None:
        """Give a slot back: to the next in line, or to the free ones; `act` will tell of it."""
        if act is not None:
            self._let_go.append(act)
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.in_use -= 1


class SlotLease:
    """One agent's hold on a slot: taking it twice, or giving it back twice, is one act."""

    __slots__ = (
        "_asking",
        "_is_closed",
        "_lock",
        "_slots",
        "held",
    )

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._lock: asyncio.Lock | None = None  # while somebody has to wait
        self._asking = 0  # how many do
        self._is_closed = False
        self.held = False

    async def acquire(self) -> None:
        """Hold a slot."""
        is_awaited = self._lock is not None and self._lock.locked()
        if not (self.held or self._is_closed or is_awaited) and self._slots.take_free():
            self.held = True
            return
        lock = self._lock = self._lock or asyncio.Lock()
        self._asking += 1
        try:
            async with lock:
                if not self.held:
                    await self._slots.acquire()
                    self.held = True
                    if self._is_closed:  # whoever wanted it has ended meanwhile
                        self.release()
        finally:
            self._asking -= 1
            if not self._asking:
                self._lock = None

    def release(self, act: Staged | None = None) -> None:
        """Hold none, of which `act` tells."""
        if self.held:
            self.held = False
            self._slots.release(act)

    def close(self) -> None:
        """Hold none, and never again."""
        self._is_closed = True
        self.release()
