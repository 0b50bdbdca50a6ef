"""Live text: told without secrets, and in its place among the events of its agent.

A piece belongs behind what its agent did before. Where that is not committed yet, the piece waits
for it; so does what comes behind the piece. Where nothing is on its way, it is told at once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prsm_core.domain.events import Event
    from prsm_core.permissions.redaction import StreamRedactor


class LiveText:
    """One text of an agent while it comes: told without its secrets, wherever it is cut."""

    __slots__ = ("_at", "_of", "_stream", "_tell")

    def __init__(
        self,
        stream: StreamRedactor,
        tell: Callable[[dict[str, Any]], None],
        of: Mapping[str, Any],
    ) -> None:
        self._stream = stream
        self._tell = tell
        self._of = of
        self._at = 0

    def feed(self, piece: str) -> None:
        """Tell what can be told by now."""
        self._tell_some(self._stream.feed(piece))

    def end(self) -> None:
        """Tell the rest: the text goes on no further, or only behind something else."""
        self._tell_some(self._stream.flush())

    def _tell_some(self, text: str) -> None:
        if text:
            self._tell({**self._of, "at": self._at, "text": text})
            self._at += len(text)


@dataclass(slots=True, eq=False)
class Piece:
    """Text that was told in a row, all of it behind the same event of its agent."""

    first: Event
    behind: int | None = None  # the number of that event; None: it is on its way
    more: list[str] = field(default_factory=list)

    def takes(self, event: Event) -> bool:
        """Add text that goes on from here; False for what is no part of this text."""
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
        """What tells all of it."""
        if not self.more:
            return self.first
        return replace(self.first, data={**self.first.data, "text": self.text})


class Waiting:
    """Owns which agents have text that waits for a write, and who waits for that text."""

    def __init__(self) -> None:
        self._agents: dict[str, list[int]] = {}  # how many pieces, and the event they are behind
        self._moved: asyncio.Future[None] | None = None

    def add(self, agent: str, behind: int) -> None:
        """Note a piece that waits; all up to event `behind` was told before it."""
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
    """Owns which writes are being made: the ledger may have them, and nobody was told."""

    def __init__(self) -> None:
        self._last = 0
        self._open: set[int] = set()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def begin(self) -> int:
        """Note that a write begins; return its number."""
        self._last += 1
        self._open.add(self._last)
        return self._last

    def end(self, number: int) -> None:
        """Note that it has ended: what it wrote is told before anybody else runs."""
        self._open.discard(number)
        if self._waiting:
            first = min(self._open, default=self._last + 1)
            for limit, done in self._waiting:
                if limit < first and not done.done():
                    done.set_result(None)
            self._waiting = [one for one in self._waiting if not one[1].done()]

    async def past(self) -> None:
        """Return once all is told that is being written now."""
        if self._open:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((self._last, done))
            await done
