"""The ledger of a team whose time may stand still, and whose writes may fail."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self

from prsm_testing.fake_clock import FakeClock

from prsm_core.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path


class HeldStore(SqliteStore):
    """The real store; a FakeClock stands still while its threads work."""

    clock: FakeClock | None = None
    broken: Exception | None = None  # raised by every write

    @classmethod
    async def on(cls, path: Path, clock: Any) -> Self:
        """Open the ledger of a team with this clock."""
        store = await cls.open(path)
        store.stop_time(clock)
        return store

    def stop_time(self, clock: Any) -> None:
        """Hold the clock during every read and write, if it is one that can be held."""
        if isinstance(clock, FakeClock):
            self.clock = clock

    def _held(self):
        return nullcontext() if self.clock is None else self.clock.hold()

    async def _read(self, *arguments, **named):
        with self._held():
            return await super()._read(*arguments, **named)

    async def _data_version(self):  # which those ask who follow the events
        with self._held():
            return await super()._data_version()

    async def commit(self, step):
        return await self._write(super().commit(step))

    async def append(self, events):
        return await self._write(super().append(events))

    async def _write(self, work):
        if self.broken is not None:
            work.close()
            raise self.broken
        with self._held():
            return await work
