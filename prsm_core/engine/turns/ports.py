"""Ports: what turns need of the agents above them. A port names what its users call, no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prsm_core.domain.agents import AgentResult, AgentState
    from prsm_core.domain.steps import Write
    from prsm_core.domain.writes import CallClosed, StateChanged
    from prsm_core.engine.state import AgentRecord, Evidence, Staged
    from prsm_core.engine.turns.waits import Wait


class Ends(Protocol):
    """How a part ends agents."""

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
        """Fail an agent, keeping what it said; its live children are killed first."""

    async def stop_and_fail(self, record: AgentRecord, message: str, kind: str) -> AgentResult:
        """Fail an agent whose life goes on by itself: that is stopped first."""

    async def kill_tree(self, record: AgentRecord, reason: str) -> AgentResult:
        """Kill what still lives of an agent and of those below it."""

    async def kill_children(self, record: AgentRecord, reason: str) -> None:
        """Kill the live children of an agent with all below them."""


class Steered(Protocol):
    """What is said to models within their turns."""

    def look(self, agent_id: str) -> None:
        """Have an agent's running turn given what peers have written, if there is any."""

    async def settled(self, agent_id: str) -> None:
        """Wait for what an agent's vendor is being given: it may come back unread."""


class Life(Protocol):
    """One life of an agent, as what works in its turns sees it."""

    @property
    def record(self) -> AgentRecord:
        """The agent."""

    @property
    def is_over(self) -> bool:
        """Whether this life may do nothing more; the agent's next one may have begun."""

    @property
    def turn(self) -> Turn | None:
        """The running turn, or the last one; None before the first."""

    @property
    def is_working(self) -> bool:
        """Whether the agent runs and holds a slot, so that it can be answered at once."""

    @property
    def is_blocked(self) -> bool:
        """Whether all that the agent does is waiting, as far as nobody has moved it since."""

    def moved(self) -> None:
        """Note that the agent is not blocked any more, or about to move."""

    def blocked(self, waits: Sequence[Wait]) -> None:
        """Become WAITING and give the slot back: everything that the agent does is waiting."""

    def idles(self) -> None:
        """Note that nothing of the agent acts, while it keeps its slot: a person is asked."""

    async def take_slot(self) -> None:
        """Hold a slot; waits in line for it."""

    def resume(self) -> tuple[StateChanged, ...]:
        """Let a waiting agent run again, if it holds a slot; return what a step must carry."""

    async def runs_again(self, rests: Callable[[], bool]) -> None:
        """Become RUNNING, unless by the time that it has a slot the turn rests again."""

    @property
    def has_only_talked(self) -> bool:
        """Whether nothing but orchestration of this life can have done anything, for sure."""

    async def weigh(
        self, artifacts: Sequence[str], commands: Sequence[str], *, is_last: bool = False
    ) -> Evidence:
        """Look into what the agent says that it has done."""


class Turn(Protocol):
    """A turn, as those see it who decide for its agent."""

    async def hold(self) -> bool:
        """Wait for the end of a turn that its budget ends; False, at once, for every other one."""

    def pause(self) -> None:
        """Count as running a tool: while a person decides nobody reasons or is silent."""

    def go_on(self) -> None:
        """Count as running no tool."""

    def permitted(self, tool: str) -> None:
        """Take note of a permission that was given."""
