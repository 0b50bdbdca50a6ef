"""Fan out what the journal commits to in-process readers and sinks.

Readers get committed events from the store by number, and only live deltas this way, so a slow
reader loses deltas but no event. A delta comes after the events of its agent that precede it and
before those that follow. Deltas of the same text are joined only for a slow reader, before any is
lost.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct, field

from prsm_core.domain.events import Event
from prsm_core.engine.journal.spoken import Piece, Spoken
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from prsm_core.engine.journal.spoken import Waiting
    from prsm_core.interfaces.store import Store
    from prsm_core.kit.background import Background

READER_LIMIT = 1000  # events buffered for one reader
LIVE_LIMIT = READER_LIMIT // 2  # with so many, live ones find no place
JOINED_FROM = LIVE_LIMIT * 4 // 5  # with so many, what comes joins what is there, where it can
LONGEST_JOINED = 64 * 1024  # characters
_OF = ("turn", "message", "call")  # the fields of live text that say which text it is of


class Feed(Struct, eq=False):
    """Owns the set of readers."""

    store: Store
    background: Background
    spoken: Spoken = field(default_factory=Spoken)
    newest: int = 0  # the number of the newest event
    _readers: set[_Reader] = field(default_factory=set)
    _taps: list[Callable[[tuple[Event, ...]], None]] = field(default_factory=list)

    def add_tap(self, tap: Callable[[tuple[Event, ...]], None]) -> None:
        """Pass committed events to `tap`, which must not block."""
        self._taps.append(tap)

    def publish(self, events: tuple[Event, ...]) -> None:
        """Pass on what was committed."""
        if events:
            self.newest = events[-1].seq or self.newest
            self.spoken.heed(events)
            for tap in self._taps:
                tap(events)

    def offer(self, event: Event, behind: int) -> None:
        """Pass on live text, behind event `behind`."""
        for reader in self._readers:
            reader.offer(event, behind)

    async def events(self, session_id: str, after: int = 0) -> AsyncIterator[Event]:
        """Yield committed events after `after`, then follow, with live deltas between.

        The first deltas are what running turns have said of messages without an event yet. Raises
        ConfigError for a number that the session has not reached.
        """
        await self._check_reached(session_id, after)
        await self.spoken.writing.past()  # so that it is known which text has an event already
        reader = _Reader(after, self.spoken.waiting)
        for event, behind in self.spoken.so_far(after):
            reader.offer(event, behind)
        self._readers.add(reader)
        source = self.store.events(session_id, after, follow=True)
        pump = self.background.start(reader.pump(source), name="feed reader")
        pump.add_done_callback(reader.end)  # also of one that never begins: the engine is closed
        try:
            while not (reader.closed and reader.queue.empty()):
                given = await reader.queue.get()
                if isinstance(given, Piece):
                    reader.let_go(given)
                    yield given.event
                elif given is not None:
                    yield given
        finally:
            self._readers.discard(reader)
            pump.cancel()

    async def _check_reached(self, session_id: str, after: int) -> None:
        if after <= 0:
            return
        async with aclosing(self.store.events(session_id, after - 1)) as events:  # type: ignore[type-var]
            async for _ in events:
                return
        raise no_such_event(session_id, after)


def no_such_event(session_id: str, after: int) -> ConfigError:
    """Return the error of a cursor beyond a session's last event."""
    return ConfigError(
        f"session {session_id} has no event {after} yet",
        hint="give the number of an event of this session",
        code="no_such_event",
    )


class _Newest(Struct, eq=False):
    """The last buffered live text of an agent; more of it may join it there."""

    piece: Piece
    behind: int
    end: int  # where its text ends

    def joins(self, event: Event, behind: int) -> bool:
        """Join an event that continues this text behind the same event of its agent."""
        first, data = self.piece.first, event.data
        is_next = (
            event.type == first.type
            and behind == self.behind
            and data.get("at") == self.end
            and all(data.get(name) == first.data.get(name) for name in _OF)
        )
        if not is_next or self.end - first.data["at"] >= LONGEST_JOINED:
            return False
        self.piece.more.append(data["text"])
        self.end += len(data["text"])
        return True


class _Reader:
    def __init__(self, after: int, waiting: Waiting) -> None:
        self.queue: asyncio.Queue[Event | Piece | None] = asyncio.Queue(READER_LIMIT)
        self.closed = False
        self._waiting = waiting
        self._passed = after  # the number of the last committed event
        self._early: list[tuple[int, Event | Piece]] = []  # live text behind a later event
        self._newest: dict[str | None, _Newest] = {}  # by agent, of a reader that is slow
        self._dropped = 0

    def offer(self, event: Event, behind: int) -> None:
        buffered = self.queue.qsize() + len(self._early)
        if buffered < JOINED_FROM:
            if self._newest:
                self._newest.pop(event.agent, None)  # what comes later is behind this event
            self._place(event, behind)
        elif (newest := self._newest.get(event.agent)) and newest.joins(event, behind):
            return
        elif buffered < LIVE_LIMIT:
            piece, data = Piece(event), event.data
            end = data.get("at", 0) + len(data["text"])
            self._newest[event.agent] = _Newest(piece, behind, end)
            self._place(piece, behind)
        else:
            self._dropped += 1

    def _place(self, live: Event | Piece, behind: int) -> None:
        if behind <= self._passed:
            self.queue.put_nowait(live)
        else:
            self._early.append((behind, live))

    def let_go(self, piece: Piece) -> None:
        newest = self._newest.get(piece.first.agent)
        if newest is not None and newest.piece is piece:
            del self._newest[piece.first.agent]

    async def pump(self, source: AsyncIterator[Event]) -> None:
        async with aclosing(source) as events:  # type: ignore[type-var]
            async for event in events:
                if self._waiting.concerns(event):
                    await self._waiting.over(event)
                await self._tell_dropped(event)
                self._newest.pop(event.agent, None)
                await self.queue.put(event)
                self._passed = event.seq or self._passed
                if self._early:
                    self._catch_up()

    def end(self, _: object) -> None:
        self.closed = True
        if not self.queue.full():  # a full queue will find itself closed once it is read
            self.queue.put_nowait(None)

    def _catch_up(self) -> None:
        early, self._early = self._early, []
        for behind, live in early:
            if self.queue.qsize() + len(self._early) < LIVE_LIMIT:
                self._place(live, behind)
            else:
                self._drop(live)

    def _drop(self, live: Event | Piece) -> None:
        if isinstance(live, Piece):
            self.let_go(live)
            self._dropped += len(live.more)
        self._dropped += 1

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
