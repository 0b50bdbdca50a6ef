"""What readers and sinks are told: committed events, and text that no event has yet.

Readers get committed events from the store by number, and only live deltas this way, so a slow
reader loses deltas but no event. Deltas of the same text are joined only for a slow reader, before
any is lost.

Pieces of a message come before the event with the whole of it. Who looks at the session in between
sees both as of one committed event. A piece belongs behind what its agent did before. If that is
not committed yet, the piece and what follows it wait.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from prsm_core.domain.events import Event
from prsm_core.domain.turns import CUT_MARK
from prsm_core.door import RunningTurn, UnwrittenMessage
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from prsm_core.interfaces.store import OpenTurn, Store
    from prsm_core.kit.background import Background
    from prsm_core.permissions.redaction import StreamRedactor


RECENT = 64  # committed messages whose pieces are kept for who begins to follow just before them
_HEEDED = frozenset({"turn_finished", "message_completed", "tool_call_finished"})
_OUTPUT = "tool_output_delta"


class LiveText(Struct, eq=False):
    """One text of an agent while it comes, told without its secrets wherever it is cut."""

    stream: StreamRedactor
    tell: Callable[[dict[str, Any]], None]
    of: Mapping[str, Any]
    limit: float = math.inf  # characters; what comes behind them is not told
    _at: int = 0

    def feed(self, piece: str) -> None:
        """Tell what can be told by now."""
        if self._at <= self.limit:
            self._tell_some(self.stream.feed(piece))

    def end(self) -> None:
        """Tell the rest: the text ends, or continues only behind something else."""
        self._tell_some(self.stream.flush())

    def _tell_some(self, text: str) -> None:
        if text and self._at <= self.limit:
            if self._at + len(text) > self.limit:  # only now: half a secret would not be known
                text = text[: int(self.limit) - self._at] + CUT_MARK
            self.tell({**self.of, "at": self._at, "text": text})
            self._at += len(text)


class Piece(Struct, eq=False):
    """Text told in a row, all of it behind the same event of its agent."""

    first: Event
    behind: int | None = None  # the number of that event; None: it is on its way
    more: list[str] = field(default_factory=list)

    def takes(self, event: Event) -> bool:
        """Add text that continues this one; False if it does not."""
        if event.type != self.first.type or event.data.get("call") != self.first.data.get("call"):
            return False
        self.more.append(event.data["text"])
        return True

    @property
    def text(self) -> str:
        """All of it."""
        return "".join((self.first.data["text"], *self.more))

    @property
    def event(self) -> Event:
        """One event with all of it."""
        if not self.more:
            return self.first
        return replace(self.first, data={**self.first.data, "text": self.text})

    @property
    def events(self) -> Iterator[Event]:
        """The events as the provider sent them, one for each piece."""
        yield self.first
        at = self.first.data["at"] + len(self.first.data["text"])
        for text in self.more:
            yield replace(self.first, data={**self.first.data, "at": at, "text": text})
            at += len(text)


class Waiting:
    """Owns which agents have text that waits for a write, and who waits for that text."""

    def __init__(self) -> None:
        self._agents: dict[str, list[int]] = {}  # how many pieces, and the event they are behind
        self._moved: asyncio.Future[None] | None = None

    def add(self, agent: str, behind: int) -> None:
        """Note a waiting piece; all up to event `behind` was told before it."""
        self._agents.setdefault(agent, [0, behind])[0] += 1

    def remove(self, agent: str, behind: int) -> None:
        """Note that a piece was told, behind this event."""
        held = self._agents[agent]
        held[:] = held[0] - 1, max(held[1], behind)
        if not held[0]:
            del self._agents[agent]
        if self._moved is not None:
            self._moved.set_result(None)
            self._moved = None

    def concerns(self, event: Event) -> bool:
        """Whether text waits that may belong before this event."""
        held = self._agents.get(event.agent) if event.agent else None
        return held is not None and (event.seq or 0) > held[1]

    async def over(self, event: Event) -> None:
        """Return once no text waits that may belong before this event."""
        while self.concerns(event):
            if self._moved is None:
                self._moved = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._moved)


class Writing:
    """Owns the writes under way: the ledger may have them, and nobody was told."""

    def __init__(self) -> None:
        self.last = 0  # the number of the newest
        self._open: set[int] = set()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def begin(self) -> int:
        """Note that a write begins; return its number."""
        self.last += 1
        self._open.add(self.last)
        return self.last

    def end(self, number: int) -> None:
        """Note that a write has ended: what it wrote is told before anybody else runs."""
        self._open.discard(number)
        if self._waiting:
            first = min(self._open, default=self.last + 1)
            for limit, done in self._waiting:
                if limit < first and not done.done():
                    done.set_result(None)
            self._waiting = [one for one in self._waiting if not one[1].done()]

    async def past(self, number: int | None = None) -> None:
        """Return once the present writes, or those up to this number, are told."""
        limit = self.last if number is None else number
        if min(self._open, default=limit + 1) <= limit:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((limit, done))
            await done


class _Message(Struct, eq=False):
    number: int  # in its turn
    text: str
    thinking: str
    pieces: Sequence[Piece]
    seq: int | None = None


class _Turn(Struct, eq=False):
    turn_id: str
    message: int = 1  # the number of the one that the model is at
    seq: int = 0  # of the agent's last event
    pieces: list[Piece] = []  # of that message
    complete: list[_Message] = []
    outputs: dict[str, list[Piece]] = {}  # by the call that writes

    def said(self, kind: str) -> str:
        return "".join(piece.text for piece in self.pieces if piece.first.type == kind)


class Spoken:
    """Owns the texts of running turns by agent; an agent has one turn at a time."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._left: dict[str, _Turn] = {}  # by id: those that have ended while somebody looks
        self._recent: deque[_Message] = deque(maxlen=RECENT)
        self._holders = 0
        self.waiting = Waiting()
        self.writing = Writing()

    def last_seq(self, agent: str) -> int:
        """Return the number of the last event of an agent with a running turn."""
        turn = self._turns.get(agent)
        return 0 if turn is None else turn.seq

    def piece(self, event: Event, behind: int | None) -> Piece:
        """Note a piece of text and return what it belongs to; one on its way stands alone."""
        agent, data = event.agent or "", event.data
        if event.type != _OUTPUT:
            turn = self._turn(agent, data.get("turn", ""))
            pieces = turn.pieces
        else:
            turn, call = self._turns.get(agent) or self._turn(agent, ""), data["call"]
            pieces = turn.outputs.setdefault(call, [])
        return _go_on(pieces, event, behind)

    def complete(self, agent: str | None, data: Mapping[str, Any]) -> None:
        """Note that a message of the model is whole."""
        turn = self._turn(agent or "", data["turn"])
        number = data["message"]
        thinking = data.get("thinking") or ""
        turn.complete.append(_Message(number, data["text"], thinking, turn.pieces))
        turn.message, turn.pieces = number + 1, []

    def take_up(self, agent: str, turn_id: str, said: int) -> None:
        """Note a turn of an earlier engine with this many whole messages."""
        self._turn(agent, turn_id).message = said + 1

    def _turn(self, agent: str, turn_id: str) -> _Turn:
        turn = self._turns.get(agent)
        if turn is None or turn.turn_id != turn_id:
            turn = self._turns[agent] = _Turn(turn_id)
        return turn

    def heed(self, events: tuple[Event, ...]) -> None:
        """Note what was committed."""
        turns = self._turns
        for event in events:
            agent = event.agent
            if agent is None:
                continue
            if event.type == "turn_started":
                self._turn(agent, event.data["turn"])
            turn = turns.get(agent)
            if turn is not None:
                turn.seq = event.seq or turn.seq
                if event.type in _HEEDED:
                    self._heed(event, agent, turn)

    def _heed(self, event: Event, agent: str, turn: _Turn) -> None:
        kind, data = event.type, event.data
        if kind == "tool_call_finished":
            turn.outputs.pop(data["call"], None)
            return
        if data.get("turn") != turn.turn_id:
            return
        if kind == "turn_finished":
            del self._turns[agent]
            if self._holders:
                self._left[turn.turn_id] = turn
            return
        if event.data.get("message") == turn.message:  # it was broken off
            self.complete(agent, event.data)
        for message in turn.complete:
            if message.number == event.data.get("message"):
                message.seq = event.seq
                self._recent.append(message)
        if turn.complete and not self._holders:
            turn.complete = [each for each in turn.complete if each.seq is None]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep what is committed meanwhile: somebody looks at an earlier state."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                self._left.clear()

    def so_far(self, after: int) -> Iterator[tuple[Event, int]]:
        """Yield the known pieces told behind event `after`, each with its event's number.

        A picture of event `after` may have shown any message committed later; a reader from the
        beginning has seen none. Text that waits for a write is told after it. Uncommitted text
        comes as its provider told it.
        """
        for one in self._recent:
            if 0 < after < (one.seq or 0):
                yield from ((piece.event, piece.behind) for piece in _told(one.pieces))
        for turn in self._turns.values():
            open_texts = [one.pieces for one in turn.complete if one.seq is None]
            for pieces in (*open_texts, turn.pieces, *turn.outputs.values()):
                for piece in _told(pieces):
                    yield from ((event, piece.behind) for event in piece.events)

    def since(self, running: OpenTurn, seq: int, redact: Callable[[Any], Any]) -> RunningTurn:
        """Return a turn with what it has said beyond event `seq`, redacted; see AppHandle.view."""
        turn = self._left.get(running.turn_id) or self._turns.get(running.agent_id)
        if turn is None or turn.turn_id != running.turn_id:  # it has just begun
            turn = _Turn(running.turn_id)
        text = turn.said("text_delta")
        later = [each for each in turn.complete if each.seq is None or each.seq > seq]
        return RunningTurn(
            agent=running.agent_id,
            turn=running.turn_id,
            n=running.number,
            message=turn.message,
            text=text,
            thinking=turn.said("thinking_delta"),
            at=len(text),
            unwritten=tuple(
                UnwrittenMessage(
                    message=each.number, text=redact(each.text), thinking=redact(each.thinking)
                )
                for each in later
            ),
        )


def _go_on(pieces: list[Piece], event: Event, behind: int | None) -> Piece:
    """Return the piece that a text belongs to; a new one is added."""
    last = pieces[-1] if pieces and behind is not None else None
    if last is not None and last.behind == behind and last.takes(event):
        return last
    piece = Piece(event, behind)
    pieces.append(piece)
    return piece


def _told(pieces: Sequence[Piece]) -> Iterator[Any]:
    return (piece for piece in pieces if piece.behind is not None)


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
