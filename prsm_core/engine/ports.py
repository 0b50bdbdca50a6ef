"""Ports: what the parts of the engine need of those above them.

Steps  how a part commits what an agent does
Acts   how a part ends agents; both are the manager's
Life   what a part of a turn needs of the life it belongs to; the session's

A port names what its users call, and nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from prsm_core.domain.agents import AgentResult, AgentState
    from prsm_core.domain.messages import MessageType, RoutedMessage
    from prsm_core.domain.steps import Write
    from prsm_core.domain.writes import CallClosed
    from prsm_core.engine.state import AgentRecord


class Steps(Protocol):
    """How a part commits what an agent does."""

    async def write(self, record: AgentRecord, *writes: Write) -> None:
        """Commit a step of this agent."""
        ...

    def message(
        self,
        sender: AgentRecord | None,
        kind: MessageType,
        target: str,
        payload: dict[str, Any],
        correlation_id: str | None = None,
    ) -> RoutedMessage:
        """Build a message to an agent of this run, with a new id."""
        ...


class Acts(Protocol):
    """How a part ends agents."""

    async def end_agent(
        self,
        record: AgentRecord,
        state: AgentState,
        result: AgentResult,
        *,
        reason: str = "",
        answer: CallClosed | None = None,
    ) -> AgentResult:
        """Settle an agent once."""
        ...

    async def fail_agent(self, record: AgentRecord, message: str, kind: str) -> AgentResult:
        """Fail an agent, keeping what it said; its live children are killed first."""
        ...

    async def stop_and_fail(self, record: AgentRecord, message: str, kind: str) -> AgentResult:
        """Fail an agent whose life goes on by itself: that is stopped first."""
        ...

    async def kill_children(self, record: AgentRecord, reason: str) -> None:
        """Kill the live children of an agent with all below them."""
        ...


class Life(Protocol):
    """One life of an agent, as what works in its turns sees it."""

    @property
    def record(self) -> AgentRecord:
        """The agent."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether this life may do nothing more; the agent's next one may have begun."""
        ...
