"""Ports: what the parts of the engine need of those above them.

Steps    how a part commits what an agent does
Births   how a part begins agents; the manager's
Ends     how a part ends them
Steered  what is said to models within their turns
Life     what a part of a turn needs of the life that it belongs to
Turn     what those need of the running turn who decide within it
Wait     what a blocked agent waits for; `MessageWait` where a message ends it

A port names what its users call, and nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from prsm_core.domain.agents import AgentDescriptor, AgentResult, AgentState, SpawnRequest
    from prsm_core.domain.messages import MessageType, RoutedMessage
    from prsm_core.domain.steps import Step, Write
    from prsm_core.domain.writes import CallClosed, EffectNoted, StateChanged
    from prsm_core.engine.state import AgentRecord, Evidence, Staged


class Wait(Protocol):
    """What a blocked agent waits for."""

    @property
    def state(self) -> AgentState:
        """What the agent becomes."""
        ...

    @property
    def on(self) -> str:
        """What it waits for, in words for people."""
        ...

    @property
    def targets(self) -> Callable[[], tuple[str, ...]]:
        """Return who can end the wait, as things stand when the agent is blocked: any of them."""
        ...

    @property
    def ready(self) -> Callable[[], bool]:
        """Whether something committed ends it now."""
        ...


class MessageWait(Wait, Protocol):
    """A wait that a message ends."""

    @property
    def fits(self) -> Callable[[RoutedMessage], bool]:
        """Whether this one does."""
        ...

    @property
    def is_vain(self) -> Callable[[], bool]:
        """Whether it is over without one."""
        ...


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
        needs: Staged | None = None,
    ) -> object:
        """Commit a step; its messages reach their mailboxes once it is durable."""
        ...

    async def write(self, record: AgentRecord, *writes: Write) -> None:
        """Commit a step of this agent."""
        ...

    def stage(self, record: AgentRecord, *writes: Write, needs: Staged | None = None) -> Staged:
        """Have a step written with the agent's next one, or within 20 ms."""
        ...

    async def land(self, agent_id: str | None = None) -> None:
        """Write what this agent has staged, or all agents have."""
        ...

    def move(
        self,
        record: AgentRecord,
        target: AgentState,
        reason: str = "",
        *,
        waiting_on: str | None = None,
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


class Births(Protocol):
    """How a part begins agents."""

    async def spawn_agent(
        self,
        request: SpawnRequest,
        plan: AgentDescriptor | None = None,
        *,
        needs: Staged | None = None,
        besides: Sequence[Write] = (),
        answer: Callable[[AgentRecord], CallClosed | None] | None = None,
        note: Callable[[AgentRecord], EffectNoted] | None = None,
    ) -> AgentRecord:
        """Spawn a child, as planned just now if that was done already."""
        ...

    def enlist(
        self, descriptor: AgentDescriptor, request: SpawnRequest | None = None
    ) -> AgentRecord:
        """Give a new agent its name, its regions and its budget; `bear` or `strike` comes next."""
        ...

    async def give_trees(self, records: Sequence[AgentRecord]) -> None:
        """Make worktrees for those that want one; all are struck where one cannot be made."""
        ...

    def strike(self, record: AgentRecord) -> None:
        """Forget an agent of which nothing was written."""
        ...

    async def bear(
        self,
        records: Sequence[AgentRecord],
        *,
        needs: Staged | None = None,
        note: Callable[[AgentRecord], EffectNoted] | None = None,
    ) -> None:
        """Commit new agents of one parent, by one step of its, and start their sessions."""
        ...

    async def restart_agent(
        self,
        agent_id: str,
        new_prompt: str,
        *,
        is_fresh: bool = False,
        besides: Sequence[Write] = (),
    ) -> AgentRecord:
        """Give an ended agent a new life; one that `is_fresh` knows nothing of those before."""
        ...


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
        ...

    async def kill_tree(self, record: AgentRecord, reason: str) -> AgentResult:
        """Kill what still lives of an agent and of those below it."""
        ...

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
        ...

    async def stop_and_fail(self, record: AgentRecord, message: str, kind: str) -> AgentResult:
        """Fail an agent whose life goes on by itself: that is stopped first."""
        ...

    async def kill_children(self, record: AgentRecord, reason: str) -> None:
        """Kill the live children of an agent with all below them."""
        ...


class Steered(Protocol):
    """What is said to models within their turns."""

    def look(self, agent_id: str) -> None:
        """Have an agent's running turn given what peers have written, if there is any."""
        ...

    async def settled(self, agent_id: str) -> None:
        """Wait for what an agent's vendor is being given: it may come back unread."""
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

    @property
    def turn(self) -> Turn | None:
        """The running turn, or the last one; None before the first."""
        ...

    @property
    def is_working(self) -> bool:
        """Whether the agent runs and holds a slot, so that it can be answered at once."""
        ...

    @property
    def is_blocked(self) -> bool:
        """Whether all that the agent does is waiting, as far as nobody has moved it since."""
        ...

    def moved(self) -> None:
        """Note that the agent is not blocked any more, or about to move."""
        ...

    def blocked(self, waits: Sequence[Wait]) -> None:
        """Become WAITING and give the slot back: everything that the agent does is waiting."""
        ...

    def idles(self) -> None:
        """Note that nothing of the agent acts, while it keeps its slot: a person is asked."""
        ...

    async def take_slot(self) -> None:
        """Hold a slot; waits in line for it."""
        ...

    def resume(self) -> tuple[StateChanged, ...]:
        """Let a waiting agent run again, if it holds a slot; return what a step must carry."""
        ...

    async def runs_again(self, rests: Callable[[], bool]) -> None:
        """Become RUNNING, unless by the time that it has a slot the turn rests again."""
        ...

    @property
    def has_only_talked(self) -> bool:
        """Whether nothing but orchestration of this life can have done anything, for sure."""
        ...

    async def weigh(
        self, artifacts: Sequence[str], commands: Sequence[str], *, is_last: bool = False
    ) -> Evidence:
        """Look into what the agent says that it has done."""
        ...


class Turn(Protocol):
    """A turn, as those see it who decide for its agent."""

    async def hold(self) -> bool:
        """Wait for the end of a turn that its budget ends; False, at once, for every other one."""
        ...

    def pause(self) -> None:
        """Count as running a tool: while a person decides nobody reasons or is silent."""
        ...

    def go_on(self) -> None:
        """Count as running no tool."""
        ...

    def permitted(self, tool: str) -> None:
        """Take note of a permission that was given."""
        ...
