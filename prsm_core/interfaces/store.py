"""The store: the durable truth. `commit(step)` is its one act."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsm_core.domain.usage import Provenance, Spent, TokenUsage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from prsm_core.domain.agents import AgentDescriptor, AgentResult
    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.steps import Committed, HumanRequest, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session as listed."""

    session_id: str
    run_id: str | None  # its newest run
    status: str | None  # of that run: running, or as in run_finished
    task: str
    workspace: str
    started_at: float
    last_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """An agent as the ledger knows it now."""

    descriptor: AgentDescriptor  # with its present state and incarnation
    waiting_on: str | None
    result: AgentResult | None
    resume_token: str | None
    usage: TokenUsage  # of its own turns
    cost_usd: float | None
    next_turn: int
    head_turn_id: str | None
    started_at: float | None  # first turn, Unix seconds
    ended_at: float | None
    last_tool: str | None
    last_event_at: float | None
    usage_provenance: Provenance = Provenance.UNKNOWN
    cost_provenance: Provenance = Provenance.UNKNOWN
    turns_without_usage: int = 0  # closed turns whose tokens nobody told
    turns_without_cost: int = 0

    @property
    def spent(self) -> Spent:
        """What its own turns used, and where the numbers come from."""
        return Spent(
            usage=self.usage,
            cost_usd=self.cost_usd,
            tokens_from=self.usage_provenance,
            cost_from=self.cost_provenance,
            turns_without_tokens=self.turns_without_usage,
            turns_without_cost=self.turns_without_cost,
        )


class Store(ABC):
    """Every implementation passes the same contract tests."""

    @abstractmethod
    async def commit(self, step: Step) -> Committed:
        """Apply a step in one transaction and return once it is durable.

        Steps given in some order by one task are applied in that order. Raises FencedError for
        an older incarnation or an ended agent, InvalidTransitionError for a state change that
        does not fit the stored state, StoreError for what cannot be written. What
        only a living agent writes (`Write.is_of_life`) may not follow its end.
        """

    @abstractmethod
    async def append(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Append events that no step causes (what a provider merely says), numbered, durable."""

    @abstractmethod
    def events(
        self, session_id: str, after: int = 0, *, follow: bool = False, agent: str | None = None
    ) -> AsyncIterator[Event]:
        """Yield the session's events with seq > `after`, in order and without a gap.

        With `follow` the iterator waits for more until it is closed, also for those that
        another process commits.
        """

    @abstractmethod
    async def sessions(self) -> Sequence[SessionInfo]:
        """Return all sessions, newest first."""

    @abstractmethod
    async def agents(self, session_id: str) -> Sequence[AgentRow]:
        """Return the session's agents in order of creation."""

    @abstractmethod
    async def inbox(self, session_id: str) -> Sequence[RoutedMessage]:
        """Return the unconsumed messages of the session in order of commit."""

    @abstractmethod
    async def open_requests(self, session_id: str) -> Sequence[HumanRequest]:
        """Return the permission requests and questions nobody has answered."""

    @abstractmethod
    async def calls(self, agent_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the agent's tool calls of all turns, oldest first, as ledger rows."""

    @abstractmethod
    async def aclose(self) -> None:
        """Finish what was submitted, then close."""
