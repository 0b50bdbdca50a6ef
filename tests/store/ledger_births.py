"""What the ledger means by an agent's birth, and by what is said of it: a part of its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.writes import AgentRestarted
from tests.store.ledger_state import Agent

if TYPE_CHECKING:
    from prsm_core.domain.steps import Step
    from tests.store.ledger_state import State


class BirthsMeant:
    """The acts by which agents are, and are labelled."""

    state: State
    step: Step
    wrong: set[str]

    @property
    def own(self) -> Agent:
        """The agent whose step this is; the model knows."""
        raise NotImplementedError

    def tell(
        self, kind: str, /, *, about: str | None = None, at: float | None = None, **data: Any
    ) -> None:
        """Note an event; the model does so."""
        raise NotImplementedError

    def AgentSpawned(self, write: Any) -> None:  # noqa: N802
        """Let an agent be, under a parent that has not ended."""
        new, agents = write.agent, self.state.agents
        if new.agent_id in agents:
            self.wrong.add("StoreError conflict")
        if new.parent_id is not None and new.parent_id not in agents:
            self.wrong.add("StoreError unknown_agent")
        elif new.parent_id is not None and agents[new.parent_id].is_over:
            self.wrong.add("FencedError fenced")
        agents[new.agent_id] = Agent(
            new.name,
            new.parent_id,
            new.provider,
            new.model,
            new.prompt,
            dict(new.labels),
            (new.mode.value, new.grant.mode.value),
            new.state.value,
        )
        self.tell(
            "agent_spawned",
            about=new.agent_id,
            name=new.name,
            parent=new.parent_id,
            role=new.role.value,
            provider=new.provider,
            model=new.model,
            depth=new.depth,
            prompt=new.prompt,
            call=write.call,
            cwd=new.cwd,
            mode=new.mode.value,
            incarnation=new.incarnation,
            region=None if new.grant.region is None else list(new.grant.region),
            labels=dict(new.labels),
            continues=new.continues,
        )

    def AgentRelabelled(self, write: Any) -> None:  # noqa: N802
        """Say something else of the agent, or of a child of it; who has ended says nothing."""
        restarts = self.step.find(AgentRestarted) is not None
        if self.own.is_over and not restarts:
            self.wrong.add("FencedError fenced")
        agent = self.state.agents.get(write.agent_id)
        is_own = write.agent_id == self.step.agent_id
        if agent is None or not (is_own or agent.parent == self.step.agent_id):
            self.wrong.add("StoreError unknown_agent")
        else:
            agent.labels = dict(write.labels)
        self.tell("agent_labels_changed", about=write.agent_id, labels=dict(write.labels))
