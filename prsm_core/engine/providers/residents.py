"""Resident processes: how many vendors may have, and who makes room for one more.

A session of a provider with `own_process` holds a process while it is open, though its agent mostly
waits for others, who may want the place. If every place is taken, the agent that has waited longest
is parked: its session closes and its turn stays open. `agents/session.py` continues it.

Few of a vendor's processes start at one time, as each needs more than one core until it is ready.
Eight that start together on two cores take a quarter more CPU than in turns and the memory of eight
starts at once, and they are ready no sooner.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core.errors import AgentSpawnError
from prsm_core.kit.clocks import first_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from prsm_core.interfaces.clock import Clock
    from prsm_core.interfaces.provider import ProviderSession

NO_ROOM = "too_many_processes"  # the code of a process for which there is no place
PATIENCE_SECONDS = 60.0  # for somebody to wait or to end, of whoever has had no process before
PARK_SECONDS = 60.0  # how long the process of a session that is parked may take to end


class _Resident(Struct, eq=False):
    park: Callable[[], bool]
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class Residents:
    """Owns the places for vendors' processes; `running` counts all, even those of no session."""

    def __init__(self, limit: int, running: Callable[[], int], clock: Clock) -> None:
        self._limit = limit
        self._running = running
        self._clock = clock
        # Turns to start: at one time half as many as there are cores.
        self._starts = asyncio.Semaphore(max(1, len(os.sched_getaffinity(0)) // 2))
        self._table: dict[str, _Resident] = {}  # by agent
        # Agents of the table who waited when last heard of, the longest first.
        self._waiting: dict[str, None] = {}
        self._starting = 0  # processes that have a place and may not be among the running ones yet
        self._line = asyncio.Lock()  # of those who have to make room
        self._news: asyncio.Event | None = None  # something may have made room; while one listens

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place for a process started within; raise AgentSpawnError if there is none."""
        if self._line.locked() or self._is_full:
            async with self._line:
                await self._make_room()
                self._starting += 1
        else:
            self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1
            self._tell()

    @asynccontextmanager
    async def home(
        self,
        agent_id: str,
        opening: AbstractAsyncContextManager[ProviderSession],
        park: Callable[[], bool],
    ) -> AsyncIterator[ProviderSession]:
        """Open a session that holds a process; `park` closes it soon if its agent only waits."""
        resident = _Resident(park)
        start = await begin_start(self._starts, self._clock)
        try:
            async with opening as session:
                start.close()
                self._table[agent_id] = resident
                yield session
        finally:
            start.close()
            if self._table.get(agent_id) is resident:  # not that of the agent's next life
                del self._table[agent_id]
                self._waiting.pop(agent_id, None)
            resident.gone.set()
            self._tell()

    def waits(self, agent_id: str) -> None:
        """Note that an agent only waits from now on; `park` tells whether it still does."""
        if agent_id in self._table:
            self._waiting.pop(agent_id, None)
            self._waiting[agent_id] = None
            self._tell()

    async def freed(self, seconds: float | None) -> bool:
        """Wait until there may be room, up to `seconds`; return whether there may be."""
        return await first_of(self._clock, seconds, self._until_freed) and self._may_have_room

    async def _until_freed(self) -> None:
        while not self._may_have_room and (self._table or self._starting):
            await self._listen()

    @property
    def _may_have_room(self) -> bool:
        return bool(self._waiting) or not self._is_full

    @property
    def _is_full(self) -> bool:
        return self._running() + self._starting >= self._limit

    async def _make_room(self) -> None:
        while self._is_full:
            if self._starting:  # one that has been started counts twice until that is known
                await self._listen()
            elif not await self._park_longest():
                raise AgentSpawnError(
                    f"{self._limit} processes run, which is max_resident_processes",
                    hint="raise engine.max_resident_processes or spawn fewer agents",
                    code=NO_ROOM,
                )

    async def _park_longest(self) -> bool:
        while self._waiting:
            agent_id = next(iter(self._waiting))
            del self._waiting[agent_id]
            resident = self._table[agent_id]
            if resident.park():
                await first_of(self._clock, PARK_SECONDS, resident.gone.wait)
                return True
        return False

    async def _listen(self) -> None:
        self._news = self._news or asyncio.Event()
        await self._news.wait()

    def _tell(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set()


LONGEST_SECONDS = 3.0


async def begin_start(turns: asyncio.Semaphore, clock: Clock) -> ExitStack:
    """Wait for a turn to start, which ends as this is closed, or after LONGEST_SECONDS."""
    await turns.acquire()
    turn = ExitStack()
    turn.callback(turns.release)
    turn.callback(clock.call_later(LONGEST_SECONDS, turn.close).cancel)
    return turn
