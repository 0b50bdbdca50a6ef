"""Waiting for new events: own commits wake at once, those of other processes are polled for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable

NEVER = -1  # no reading connection has such a version


class Tail:
    """Counts changes of the ledger. A follower remembers the count, reads, then waits for more."""

    def __init__(self, version: Callable[[], Awaitable[int]], poll_s: float) -> None:
        self._version = version
        self._poll_s = poll_s
        self._changed: asyncio.Event | None = None  # what followers wait for, once one does
        self._seen = NEVER  # version of the ledger; the first poll of one always differs
        self._polling = False
        self.count = 0
        self.closed = False

    def bump(self) -> None:
        """Wake all followers."""
        self.count += 1
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def close(self) -> None:
        """Wake all followers for the last time."""
        self.closed = True
        self.bump()

    async def wait(self, count: int) -> None:
        """Return once there have been more than `count` changes, or the store closes."""
        while self.count == count and not self.closed:
            try:
                if self._changed is None:
                    self._changed = asyncio.Event()
                async with asyncio.timeout(self._poll_s):
                    await self._changed.wait()
            except TimeoutError:
                await self._poll()

    async def _poll(self) -> None:
        if self._polling or self.closed:
            return  # another follower asks already, and wakes this one too
        self._polling = True
        try:
            version = await self._version()
        finally:
            self._polling = False
        if version != self._seen:
            self._seen = version
            self.bump()


def data_version(conn: sqlite3.Connection) -> int:
    """Return a number that differs once another connection has changed the ledger."""
    (version,) = conn.execute("PRAGMA data_version").fetchone()
    return int(version)
