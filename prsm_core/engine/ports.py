"""Ports: what the parts of the engine need of those above them.

Steps  how a part commits what an agent does
Acts   what a part may have done to agents: spawns, restarts, ends; both are the manager's
Life   what a part of a turn needs of the life it belongs to; the session's
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractAsyncContextManager

    from prsm_core.domain.agents import AgentResult, AgentState, SpawnRequest
    from prsm_core.domain.messages import MessageType, RoutedMessage
    from prsm_core.domain.steps import Committed, Step, Write
    from prsm_core.domain.writes import CallClosed, StateChanged
    from prsm_core.engine.state import AgentRecord


class Steps(Protocol):
    """How a part commits what an agent does."""

    def build(self, record: AgentRecord, *writes: Write) -> Step:
        """Build a step of this agent and incarnation, with a new step id."""
        ...

    async def commit(
        self,
        step: Step,
        *,
        consumed: Collection[str] = (),
        then: Callable[[], None] | None = None,
    ) -> Committed:
        """Commit a step; its messages reach their mailboxes once it is durable."""
        ...

    async def write(self, record: AgentRecord, *writes: Write) -> None:
        """Commit a step of this agent."""
        ...

    def move(
        self,
        record: AgentRecord,
        target: AgentState,
        reason: str = "",
        *,
        waiting_on: str | None = None,
        trigger: str | None = None,
    ) -> tuple[StateChanged, ...]:
        """Change the state in memory; return what the next step must carry."""
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


class Acts(Steps, Protocol):
    """What a part may have done to agents beside what it commits itself."""

    async def spawn_agent(self, request: SpawnRequest) -> AgentRecord:
        """Spawn a child of `request.parent_id`."""
        ...

    async def restart_agent(self, agent_id: str, new_prompt: str) -> AgentRecord:
        """Give an ended agent a new life."""
        ...

    def check_room(self, count: int) -> None:
        """Raise AgentSpawnError unless the run may have `count` agents more."""
        ...

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

    def now_ms(self) -> int:
        """Return Unix milliseconds."""
        ...

    def busy(self) -> AbstractAsyncContextManager[None]:
        """Count as a tool that runs: while a person decides nobody reasons or is silent."""
        ...

    def moved(self) -> None:
        """Note that the agent is not blocked any more, or about to move."""
        ...

    async def calls_changed(self) -> None:
        """Become WAITING, and give the slot back, if everything the agent does is waiting."""
        ...

    async def model_streams(self) -> None:
        """Become RUNNING again when the model speaks although a call still waits."""
        ...

    async def take_slot(self) -> None:
        """Hold a slot; waits in line for it."""
        ...

    def resume_changes(self) -> tuple[StateChanged, ...]:
        """Return the changes that make a waiting agent run again; none when it holds no slot."""
        ...

    async def give_up(self) -> None:
        """Fail the agent, whose provider does not end a cancelled turn."""
        ...
