"""One agent in the tree, as far as it is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prsm_core import Spent
from prsm_core.kit import escape_exact
from prsm_tui.model.spoken import shown
from prsm_tui.model.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.door import AgentNode

ENDED = frozenset({"completed", "failed", "killed"})
STOPPED = ENDED | {"interrupted"}  # nobody runs it


@dataclass(slots=True, kw_only=True)
class Agent:
    """An agent; times are in Unix seconds, None where nobody told them."""

    id: str
    name: str
    run: str | None = None
    parent: str | None = None
    role: str = ""
    provider: str = ""
    model: str = ""
    next_model: str = field(default="", compare=False)  # of its next turn, as a person has chosen
    depth: int = 0
    mode: str = ""
    task: str = field(default="", compare=False)  # no view tells it
    state: str = "pending"
    waiting_on: str = ""
    evidence: str = ""
    gaps: Sequence[str] = ()
    tools: dict[str, tuple[str, float]] = field(default_factory=dict)  # those that run: since when
    context: Mapping[str, Any] | None = None
    spent: Spent = field(default_factory=Spent, compare=False)
    spent_below: Spent = field(default_factory=Spent, compare=False)  # by it and all below it
    started_at: float | None = field(default=None, compare=False)
    ended_at: float | None = field(default=None, compare=False)
    heard_at: float | None = field(default=None, compare=False)
    progress: str = field(default="", compare=False)
    retry_at: float | None = field(default=None, compare=False)
    prompts: int = field(default=0, compare=False)  # of a person, that it has not read
    children: list[str] = field(default_factory=list)
    transcript: Transcript = field(default_factory=Transcript, compare=False)

    @property
    def is_live(self) -> bool:
        """Whether somebody runs it."""
        return self.state not in STOPPED

    @property
    def label(self) -> str:
        """Its provider and its model."""
        return f"{self.provider}/{self.model}"

    @property
    def models(self) -> str:
        """Its model, and the one of its next turn if that is another one."""
        return f"{self.label}, then {self.next_model}" if self.next_model else self.label

    def elapsed(self, now: float) -> float | None:
        """Return for how many seconds it has run, None where it has not begun."""
        if self.started_at is None:
            return None
        end = self.ended_at if self.ended_at is not None else now
        return max(0.0, end - self.started_at)

    def silent(self, now: float) -> float | None:
        """Return for how many seconds nothing was heard of it, None where it has ended."""
        if self.heard_at is None or not self.is_live:
            return None
        return max(0.0, now - self.heard_at)


def agent_of_node(node: AgentNode, since: int, now: float) -> Agent:
    """Return an agent as a view tells it, whose transcript goes on after event `since`."""
    agent = Agent(
        id=node.id,
        name=escape_exact(node.name),
        run=node.run,
        parent=node.parent,
        role=escape_exact(node.role),
        provider=escape_exact(node.provider),
        model=escape_exact(node.model),
        depth=node.depth,
        mode=escape_exact(node.mode or ""),
        state=escape_exact(node.state),
        waiting_on=_exact(node.waiting_on),
        evidence=_exact(node.evidence),
        gaps=tuple(map(shown, node.evidence_gaps)),
        context=node.context or None,
        prompts=len(node.prompts or ()),
        transcript=Transcript(since),
    )
    for tool in node.open_tools or ():
        agent.tools[tool.call] = escape_exact(tool.tool), tool.since
    # A node tells for how long it ran, and was silent, before `now`.
    if node.elapsed_s is not None:
        agent.started_at = now - node.elapsed_s
        agent.ended_at = None if agent.is_live else now
    agent.heard_at = None if node.silent_s is None else now - node.silent_s
    take_counted(agent, node)
    return agent


def take_counted(agent: Agent, node: AgentNode) -> None:
    """Take over what no event tells: what it used, and all below it, and its next model."""
    agent.next_model = _exact(node.next_model)
    agent.spent, agent.spent_below = node.usage_self.as_spent, node.usage_subtree.as_spent


def _exact(text: str | None) -> str:
    return escape_exact(text or "")
