"""Live agents: what the engine holds of each one beside the ledger. AgentManager owns them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from prsm_core.domain.messages import MessageType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.agents import AgentDescriptor, AgentResult, AgentState
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.engine.agents.session import AgentSession


@dataclass(slots=True)
class OpenQuestion:
    """A question another agent asked this one and still waits for."""

    message: RoutedMessage
    delivered: bool = False  # the model has seen it
    reminded: bool = False  # … and once more, because a knot hung on it
    repeated: bool = False  # … and once more in a turn of its own


def _not_yet() -> asyncio.Future[None]:
    """Return what an end is told by: a Future takes less memory than an Event, and all have one."""
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class AgentRecord:
    """One agent: its descriptor, its place in the tree, its running session."""

    descriptor: AgentDescriptor
    children: list[str] = field(default_factory=list)
    live_children: dict[str, AgentRecord] = field(default_factory=dict, repr=False)
    waiting_on: str | None = None
    result: AgentResult | None = None  # final, once the state is terminal
    ended: asyncio.Future[None] = field(default_factory=_not_yet)  # done: the end is committed
    claimed_result: AgentResult | None = None  # task_complete said so, children still live
    resume_token: str | None = None
    session: AgentSession | None = None
    task: asyncio.Task[None] | None = None
    questions: dict[str, OpenQuestion] = field(default_factory=dict)  # by correlation id
    reminders: list[str] = field(default_factory=list)  # correlation ids to show once more
    progress: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # latest per child
    next_turn: int = 1
    head_turn_id: str | None = None
    reasoning_used: float = 0.0  # seconds, this incarnation
    is_condemned: bool = False  # it fails, or others have decided so: it is about to end
    has_profile: bool = False  # it is one that the settings describe, and no other's to use again
    started_at: float = 0.0  # monotonic
    agent_id: str = field(init=False)
    incarnation: int = field(init=False)  # which life of the agent this is
    state: AgentState = field(init=False)  # as of now; the descriptor's is that of its beginning
    _steps: int = 0

    def __post_init__(self) -> None:
        """Begin as the descriptor says."""
        self.agent_id = self.descriptor.agent_id
        self.incarnation = self.descriptor.incarnation
        self.state = self.descriptor.state

    @property
    def label(self) -> str:
        """The agent's ledger session, `<session>/<alias>`."""
        return f"{self.descriptor.session_id}/{self.descriptor.name}"

    @property
    def is_over(self) -> bool:
        """Whether the agent has ended, or only waits for its children to end."""
        return self.state.is_terminal or self.claimed_result is not None

    def next_step_id(self) -> str:
        """Return a new step id, `agent:incarnation:n`."""
        self._steps += 1
        return f"{self.agent_id}:{self.incarnation}:{self._steps}"

    @property
    def is_live(self) -> bool:
        """Whether the agent may still act: its end is not committed yet."""
        return not self.ended.done()

    async def wait_ended(self) -> None:
        """Return once the end is committed."""
        await asyncio.wait({self.ended})  # which, unlike a plain await, never cancels it

    def is_current(self, message: RoutedMessage) -> bool:
        """Whether a message still matters: a question does while its asker waits."""
        if message.type is not MessageType.QUESTION:
            return True
        return message.correlation_id in self.questions

    def take_reminder(self) -> OpenQuestion | None:
        """Return, once, a question that must be shown again; None if there is none."""
        while self.reminders:
            question = self.questions.get(self.reminders.pop(0))
            if question is not None:
                return question
        return None

    def set_state(self, state: AgentState) -> None:
        """Note the new state; only AgentManager calls this, after the machine."""
        self.state = state

    def switch_model(self, provider: str, model: str, reasoning_effort: str | None) -> None:
        """Go on with another model, which knows nothing of the thread so far."""
        self.descriptor = replace(
            self.descriptor, provider=provider, model=model, reasoning_effort=reasoning_effort
        )
        self.resume_token = None

    def begin_incarnation(self, prompt: str, state: AgentState) -> None:
        """Turn the record of an ended agent into that of its next life."""
        self.incarnation += 1
        self.state = state
        self.descriptor = replace(
            self.descriptor, incarnation=self.incarnation, prompt=prompt, state=state
        )
        self.result = self.claimed_result = self.waiting_on = None
        self.ended = _not_yet()
        self.questions.clear()
        self.reminders.clear()
        self.progress.clear()
        self.reasoning_used = 0.0
        self.is_condemned = False
        self._steps = 0
