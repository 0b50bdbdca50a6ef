"""What a contributed tool is given: other agents as they are, and what they have written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.agents import AgentRole, AgentState


class PeerNow(Record, frozen=True, kw_only=True):
    """An agent of the run that has not ended, as it is now."""

    agent_id: str
    name: str
    role: AgentRole
    state: AgentState
    labels: Mapping[str, str]


class PeerMessage(Record, frozen=True, kw_only=True):
    """What another agent of the run has written.

    Attributes:
        message_id: The same wherever it is told of.
        sender: The id of the agent that wrote it; it may have ended since.
        name: What that agent is called.
        text: What it says.
        sent_at: Unix seconds.
    """

    message_id: str
    sender: str
    name: str
    text: str
    sent_at: float
