"""The feed: fans out what the journal commits to in-process readers and sinks.

Committed events are read from the store by their number; only live deltas come this way to
readers, so that a slow reader loses deltas and never a committed event.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from prsm_core.domain.events import LIVE_TYPES, Event
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from prsm_core.interfaces.store import Store
    from prsm_core.kit.background import Background

READER_LIMIT = 1000  # events buffered for one reader


class Feed:
    """Owns the set of readers."""

    def __init__(self, store: Store, background: Background) -> None:
        self._store = store
        self._background = background
        self._readers: set[_Reader] = set()
        self._taps: list[Callable[[tuple[Event, ...]], None]] = []

    def add_tap(self, tap: Callable[[tuple[Event, ...]], None]) -> None:
        """Give committed events to `tap`, which must not block."""
        self._taps.append(tap)

    def remove_tap(self, tap: Callable[[tuple[Event, ...]], None]) -> None:
        """Give it no more."""
        self._taps.remove(tap)

    def publish(self, events: tuple[Event, ...]) -> None:
        """Pass on committed events (with seq) or live ones (without)."""
        if not events:
            return
        if events[0].seq is None:
            for reader in self._readers:
                for event in events:
                    reader.offer(event)
            return
        for tap in self._taps:
            tap(events)

    async def events(self, session_id: str, after: int = 0) -> AsyncIterator[Event]:
        """Yield committed events after `after`, then follow, with live deltas between.

        Raises ConfigError for a number that the session has not reached.
        """
        await self._check_reached(session_id, after)
        reader = _Reader()
        self._readers.add(reader)
        source = self._store.events(session_id, after, follow=True)
        pump = self._background.start(reader.pump(source), name="feed reader")
        try:
            while not (reader.closed and reader.queue.empty()):
                event = await reader.queue.get()
                if event is not None:
                    yield event
        finally:
            self._readers.discard(reader)
            pump.cancel()

    async def _check_reached(self, session_id: str, after: int) -> None:
        if after <= 0:
            return
        async with aclosing(self._store.events(session_id, after - 1)) as events:  # type: ignore[type-var]
            async for _ in events:
                return
        raise no_such_event(session_id, after)


def no_such_event(session_id: str, after: int) -> ConfigError:
    """Return the error of a cursor that is beyond a session's last event."""
    return ConfigError(
        f"session {session_id} has no event {after} yet",
        hint="give the number of an event of this session",
        code="no_such_event",
    )


class _Reader:
    def __init__(self) -> None:
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue(READER_LIMIT)
        self.closed = False
        self._dropped = 0

    def offer(self, event: Event) -> None:
        if event.type in LIVE_TYPES and self.queue.qsize() < READER_LIMIT // 2:
            self.queue.put_nowait(event)
        else:
            self._dropped += 1

    async def pump(self, source: AsyncIterator[Event]) -> None:
        try:
            async with aclosing(source) as events:  # type: ignore[type-var]
                async for event in events:
                    await self._tell_dropped(event)
                    await self.queue.put(event)
        finally:
            self.closed = True
            if not self.queue.full():  # a full queue will find itself closed once it is read
                self.queue.put_nowait(None)

    async def _tell_dropped(self, before: Event) -> None:
        if self._dropped:
            count, self._dropped = self._dropped, 0
            text = f"{count} live updates were not shown: this reader is too slow"
            notice = Event(
                type="notice",
                session=before.session,
                run=before.run,
                ts=before.ts,
                data={"level": "info", "text": text},
            )
            await self.queue.put(notice)
