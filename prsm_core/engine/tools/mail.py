"""The port by which tools write to other agents, and take what these write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.call import Call
    from prsm_core.interfaces.tool import PeerMessage, PeerNow


class Mail(Protocol):
    """How agents write to each other that need be neither parent nor child."""

    def now(self) -> Sequence[PeerNow]:
        """Return the agents that have not ended, oldest first."""
        ...

    def message(
        self, sender: AgentRecord, to: str, text: str, beside: Sequence[RoutedMessage] = ()
    ) -> RoutedMessage:
        """Build a message to the live agent of this id or name, `beside` others of its step.

        Raises MessageRoutingError for whom nobody could write to, and for what nobody could read.
        """
        ...

    async def next(self, call: Call, seconds: float | None) -> PeerMessage | None:
        """Take the oldest unread message of a peer, waiting for it; the call's close consumes it.

        None when `seconds` have passed (0: at once), or nobody is left who could write one.
        """
        ...
