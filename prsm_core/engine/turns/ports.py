"""What turns need of the agents above them. Each port names only what its users call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.domain.agents import AgentResult, AgentState
    from prsm_core.domain.steps import Write
    from prsm_core.domain.writes import CallClosed, StateChanged
    from prsm_core.engine.state import AgentRecord, Evidence, Staged
    from prsm_core.engine.turns.fold import TurnFold
    from prsm_core.engine.turns.waits import Wait


class Ends(Protocol):
    """Ends agents."""

    async def end_agent(
        self,
        record: AgentRecord,
        state: AgentState,
        result: AgentResult,
        *,
        reason: str = "",
        besides: Sequence[Write] = (),
        answer: CallClosed | None = None,
        needs: Staged | None = None,
    ) -> AgentResult:
        """Settle an agent once."""

    async def fail_agent(
        self,
        record: AgentRecord,
        message: str,
        kind: str,
        *,
        summary: str | None = None,
        answer: CallClosed | None = None,
        needs: Staged | None = None,
    ) -> AgentResult:
        """Fail an agent, keeping its words; its live children are killed first."""

    async def stop_and_fail(self, record: AgentRecord, message: str, kind: str) -> AgentResult:
        """Stop an agent's life, then fail it."""

    async def kill_tree(self, record: AgentRecord, reason: str) -> AgentResult:
        """Kill an agent and all below it, as far as they live."""

    async def kill_children(self, record: AgentRecord, reason: str) -> None:
        """Kill an agent's live children and all below them."""


class Steered(Protocol):
    """Delivers messages within running turns."""

    def look(self, agent_id: str) -> None:
        """Give an agent's running turn what peers have written, if anything."""

    async def settled(self, agent_id: str) -> None:
        """Wait for deliveries to an agent's vendor: they may come back unread."""


class Life(Protocol):
    """One life of an agent, as seen from its turns."""

    @property
    def record(self) -> AgentRecord:
        """The agent."""

    @property
    def is_over(self) -> bool:
        """Whether this life may act no more; the agent's next one may have begun."""

    @property
    def turn(self) -> Turn | None:
        """The running or last turn; None before the first."""

    @property
    def is_working(self) -> bool:
        """Whether the agent runs and holds a slot, so that it can be answered at once."""

    @property
    def is_blocked(self) -> bool:
        """Whether the agent only waits, as far as nobody has moved it since."""

    def moved(self) -> None:
        """Note that the agent moves or is about to, so it is not blocked."""

    def blocked(self, waits: Sequence[Wait]) -> None:
        """Become WAITING and give the slot back: the agent only waits."""

    def idles(self) -> None:
        """Note that the agent only waits for a person; it keeps its slot."""

    async def take_slot(self) -> None:
        """Wait in line for a slot and hold it."""

    def resume(self) -> tuple[StateChanged, ...]:
        """Let a waiting agent that holds a slot run again; return the writes for a step."""

    async def runs_again(self, rests: Callable[[], bool]) -> None:
        """Become RUNNING, unless the turn rests again by the time a slot is free."""

    @property
    def has_only_talked(self) -> bool:
        """Whether this life provably did nothing but orchestrate."""

    async def weigh(
        self, artifacts: Sequence[str], commands: Sequence[str], *, is_last: bool = False
    ) -> Evidence:
        """Check what the agent says it has done."""


class Turn(Protocol):
    """A turn, as seen by those who decide for its agent."""

    fold: TurnFold

    async def hold(self) -> bool:
        """Wait for the end of a turn that its budget ends; else return False at once."""

    def pause(self) -> None:
        """Count as running a tool: while a person decides nobody reasons or is silent."""

    def go_on(self) -> None:
        """Count as running no tool."""
