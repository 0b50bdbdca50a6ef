"""Turns of a vendor that speaks when it likes: a queue of events, and a session that reads it.

Whoever learns of an event puts it into the running Turn; `run_turn` yields from it. A turn ends
once, by its TurnEnded. A reader that leaves before has the vendor asked to end it, and the rest
dropped.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from prsm_core.domain.turns import AgentError, ErrorKind, StopReason, TurnEnded
from prsm_core.errors import OrchestrationError, PrsmError
from prsm_core.interfaces.provider import ProviderSession
from prsm_core.kit.clocks import deadline

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from prsm_core.domain.turns import AssembledContext, ProviderEvent
    from prsm_core.interfaces.provider import ProviderServices

MAX_EVENTS = 1000  # that nobody has read; then whoever tells of more waits
INTERRUPT_SECONDS = 2.0  # that a vendor has to end a turn in


class Turn:
    """One running turn; the session decides, this keeps. A subclass keeps more.

    Attributes:
        over: Set once the TurnEnded was put.
        sent: The vendor may know of the turn. Its sender sets it.
        stopping: The vendor was asked to end it.
    """

    def __init__(self) -> None:
        self._events: asyncio.Queue[ProviderEvent] = asyncio.Queue(MAX_EVENTS)
        self._left = False
        self.over = asyncio.Event()
        self.sent = False
        self.stopping = False

    async def put(self, events: Iterable[ProviderEvent]) -> None:
        """Queue events; wait while the reader is behind. What follows the end is dropped."""
        for event in events:
            if self.over.is_set():
                return
            ends = isinstance(event, TurnEnded)
            if ends:
                self.over.set()
            if not self._left:
                await self._events.put(event)
            if ends:  # not earlier: the end may come from a task that is cancelled there
                self.ended()

    async def next(self) -> ProviderEvent:
        """Return the next event."""
        return await self._events.get()

    def leave(self) -> None:
        """Read no further; nobody waits for the queue from now on."""
        self._left = True
        while not self._events.empty():
            self._events.get_nowait()

    def ended(self) -> None:
        """Let go of whoever works for the turn; called once its end was put."""
        return


T = TypeVar("T", bound=Turn)


class TurnSession(ProviderSession, Generic[T]):
    """A session that runs one Turn after the other.

    A subclass begins a turn and asks the vendor to end it. `turn` is the running one, None between
    turns; only the session sets it.
    """

    def __init__(self, name: str, services: ProviderServices) -> None:
        self.name = name
        self.services = services
        self.turn: T | None = None

    @abstractmethod
    def new_turn(self) -> T:
        """Return what keeps a turn that is about to begin."""

    @abstractmethod
    async def begin(self, turn: T, context: AssembledContext) -> None:
        """Send a turn to the vendor; it may last as long as the turn, and is cancelled behind it.

        An error ends the turn by `refused`; the engine hears of any but a PrsmError.
        """

    @abstractmethod
    async def ask_to_end(self, turn: T) -> None:
        """Ask the vendor, once, to end a turn that was sent; it has two seconds, this included."""

    async def refused(self, turn: T, error: PrsmError) -> None:
        """End a turn that could not begin."""
        why = AgentError(kind=ErrorKind.UNKNOWN, message=error.message)
        await turn.put([TurnEnded(StopReason.ERROR, why)])

    async def aborted(self, turn: T) -> None:
        """End a turn that the vendor knows nothing of."""
        await turn.put([TurnEnded(StopReason.ABORTED)])

    async def unconfirmed(self, turn: T) -> None:
        """End a turn that the vendor did not end when it was asked to."""
        self.reusable = False  # it may still be in that turn
        await self.aborted(turn)

    def passed(self, event: ProviderEvent) -> None:
        """Take note of an event that the reader is about to be given."""
        return

    def closed(self, turn: T) -> None:
        """Let go of a turn that is over and that nobody reads any more."""
        return

    async def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Run one turn; see ProviderSession."""
        if self.turn is not None:
            raise OrchestrationError(f"{self.name}: a turn is running already")
        turn = self.turn = self.new_turn()
        work = self.services.start_soon(self._begin, turn, context, name=f"turn of {self.name}")
        try:
            while True:
                event = await turn.next()
                self.passed(event)
                yield event
                if isinstance(event, TurnEnded):
                    return
        finally:
            turn.leave()  # first: the vendor must not wait for a reader while it is stopped
            try:
                await self.stop(turn)
            finally:
                work.cancel()
                self.closed(turn)
                self.turn = None

    async def interrupt(self) -> None:
        """End the running turn within two seconds; see ProviderSession."""
        if self.turn is not None:
            await self.stop(self.turn)

    async def stop(self, turn: T) -> None:
        """Let the vendor end a turn, and end it where the vendor does not."""
        if turn.over.is_set():
            return
        if not turn.sent:
            await self.aborted(turn)
            return
        asked, turn.stopping = turn.stopping, True
        try:
            async with deadline(self.services, INTERRUPT_SECONDS):
                if not asked:
                    await self.ask_to_end(turn)
                await turn.over.wait()
        except TimeoutError:
            await self.unconfirmed(turn)

    async def _begin(self, turn: T, context: AssembledContext) -> None:
        try:
            await self.begin(turn, context)
        except PrsmError as error:
            await self.refused(turn, error)
        except Exception as error:
            await self.refused(turn, PrsmError(f"{type(error).__name__}: {error}"))
            raise
