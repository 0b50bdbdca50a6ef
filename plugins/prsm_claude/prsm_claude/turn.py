"""One running turn of Claude: the texts it was given, its waiting calls, and how it ends."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from prsm_core import StopReason
from prsm_core.kit import Turn

if TYPE_CHECKING:
    from collections.abc import Awaitable

    Json = dict[str, Any]

T = TypeVar("T")


def text_id(known_as: str) -> str:
    """Return the id that a text of the ledger has in a transcript, where it must be a UUID."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, known_as))


class _Waiting(Struct, eq=False):
    """A hook that waits for the answer to a call."""

    task: asyncio.Task[Any] | None
    may_park: bool
    instead: Json | None = None  # what it answers when it is told not to wait any longer


class ClaudeTurn(Turn):
    """State of one turn; the session decides, this keeps."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, _Waiting] = {}
        self.takes_text = False  # its prompt has been sent
        self.texts: set[str] = set()  # ids of those that it was given
        self.completing: str | None = None  # the call that ends the turn, once it is answered
        self.parked: str | None = None  # the call that was let go of

    @property
    def is_ending(self) -> bool:
        """Whether it is over, or was told to end."""
        marks = (self.over.is_set(), self.stopping, self.completing, self.parked)
        return any(marks)

    @property
    def stopped(self) -> StopReason:
        """Why it stopped, when the vendor does not say."""
        return StopReason.END_TURN if self.completing else StopReason.ABORTED

    def new_text(self, known_as: str | None = None) -> str:
        """Return the id of a text that is to be sent: the turn lasts until the model has it.

        It is made of what the text is `known_as` to the ledger, if it is.
        """
        message_id = str(uuid.uuid4()) if known_as is None else text_id(known_as)
        self.texts.add(message_id)
        return message_id

    @property
    def to_park(self) -> str | None:
        """The id of the one call that waits; None if there are more, or it may not be let go of."""
        if len(self._waiting) != 1:
            return None
        ((call_id, waiting),) = self._waiting.items()
        return call_id if waiting.may_park else None

    async def wait_for(
        self, call_id: str, work: Awaitable[T], *, may_park: bool = False
    ) -> T | Json:
        """Await the answer to a call, or return what `let_go` gives instead."""
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        self._waiting[call_id] = waiting = _Waiting(task, may_park)
        try:
            return await work
        except asyncio.CancelledError:
            if waiting.instead is None or task is None or task.uncancel() > before:
                raise
            return waiting.instead
        finally:
            self._waiting.pop(call_id, None)

    def let_go(self, call_id: str, instead: Json) -> None:
        """Let a waiting call answer this at once; whoever works for it is cancelled."""
        waiting = self._waiting[call_id]
        if waiting.task is not None and waiting.instead is None:
            waiting.instead = instead
            waiting.task.cancel()

    def let_all_go(self, instead: Json) -> None:
        """Let every waiting call answer this, but for the one that is answered just now."""
        for call_id in tuple(self._waiting):
            self.let_go(call_id, instead)
