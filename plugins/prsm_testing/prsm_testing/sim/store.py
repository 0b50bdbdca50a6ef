"""A store that takes time, tells what it does, and can be gone from one commit to the next."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from prsm_core.errors import PrsmError, StoreError
from prsm_testing.memory_store import MemoryStore

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from prsm_core.domain.events import Event
    from prsm_core.domain.steps import Committed, Step
    from prsm_core.interfaces.clock import Clock
    from prsm_testing.memory_ledger import MemoryLedger

BATCH = 20  # writes of one transaction
CRASHED = "crashed"  # the code of the error that ends an engine


class SimStore(MemoryStore):
    """A MemoryStore whose writes are applied in order, some time later, and acknowledged later.

    `crash_at` is the number of the write at which everything ends: from then on every write
    fails, and the ledger stays as it is. At the write `tell_at` the event `reached` is set.
    Each of `on_applied`, and `on_refused`, is told what the store does, in that order. `run` must
    run for as long as the store is used.
    """

    def __init__(
        self,
        ledger: MemoryLedger,
        clock: Clock,
        dice: random.Random,
        *,
        on_applied: Sequence[Callable[[Step], None]],
        on_refused: Callable[[Step, PrsmError], None],
        slowest_s: float,
        crash_at: int | None = None,
        tell_at: int | None = None,
    ) -> None:
        super().__init__(ledger)
        self.crashed = asyncio.Event()
        self.reached = asyncio.Event()
        self.writes = 0
        self._clock = clock
        self._dice = dice
        self._on_applied = on_applied
        self._on_refused = on_refused
        self._slowest_s = slowest_s
        self._crash_at = crash_at
        self._tell_at = tell_at
        self._queue: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._some = asyncio.Event()
        self._unacknowledged = 0

    @property
    def is_idle(self) -> bool:
        """Whether every write was acknowledged."""
        return not self._unacknowledged

    async def commit(self, step: Step) -> Committed:
        """Apply a step when its turn has come."""
        committed: Committed = await self._write(lambda: self._apply(step))
        return committed

    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Append events when their turn has come."""
        numbered: tuple[Event, ...] = await self._write(lambda: self.ledger.append(events))
        return numbered

    async def run(self) -> None:
        """Write what is queued, in transactions, for as long as the store is used."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._queue:
                await self._delay()
                batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
                done = [(future, *self._perform(act)) for act, future in batch]
                await self._delay()
                for future, value, error in done:
                    self._acknowledge(future, value, error)

    async def _write(self, act: Callable[[], Any]) -> Any:
        if not self._slowest_s:
            value, error = self._perform(act)
            if error is not None:
                raise error
            return value
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._unacknowledged += 1
        self._queue.append((act, future))
        self._some.set()
        return await future

    def _perform(self, act: Callable[[], Any]) -> tuple[Any, PrsmError | None]:
        self.writes += 1
        if self.writes == self._tell_at:
            self.reached.set()
        if self.writes == self._crash_at:
            if self._dice.random() < 0.5:  # it is in the ledger, and nobody hears of it
                self._try(act)
            self.crashed.set()
        if self.crashed.is_set():
            return None, StoreError("the engine has crashed", code=CRASHED)
        return self._try(act)

    def _try(self, act: Callable[[], Any]) -> tuple[Any, PrsmError | None]:
        try:
            return act(), None
        except PrsmError as error:
            return None, error

    def _acknowledge(
        self, future: asyncio.Future[Any], value: Any, error: PrsmError | None
    ) -> None:
        self._unacknowledged -= 1
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    async def _delay(self) -> None:
        await self._clock.sleep(self._dice.random() * self._slowest_s)

    def _apply(self, step: Step) -> Committed:
        try:
            committed = self.ledger.commit(step)
        except PrsmError as error:
            self._on_refused(step, error)
            raise
        if not committed.duplicate:
            for take in self._on_applied:
                take(step)
        return committed
