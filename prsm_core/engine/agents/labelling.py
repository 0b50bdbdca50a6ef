"""What is said of agents: who may say it, and that it is in the ledger before anybody is told."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.writes import AgentRelabelled
from prsm_core.engine.guarded.failing import breaks_ledger
from prsm_core.errors import AgentSpawnError, ConfigError, OrchestrationError
from prsm_core.interfaces.provider import ChildNow
from prsm_core.kit.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.usage import Spent
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.ports import Life, Steps
    from prsm_core.engine.state import AgentRecord, Roster
    from prsm_core.errors import PrsmError


class Labelling:
    """Says what the labels of agents are, and changes them."""

    def __init__(
        self,
        roster: Roster,
        steps: Steps,
        journal: Journal,
        program_of: Callable[[str], str | None],
        spent_by: Callable[[str], Spent],
    ) -> None:
        """Begin with what to ask.

        Args:
            roster: Has the agents.
            steps: Writes what they do.
            journal: Knows what is secret.
            program_of: Returns the program that a provider is, by its name; None for a model's.
            spent_by: Returns what an agent and all below it have used.
        """
        self._roster = roster
        self._steps = steps
        self._journal = journal
        self.program_of = program_of
        self._spent_by = spent_by

    def of_run(
        self, given: Mapping[str, str], known: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return a master's labels, laid over those it has: a person gives them.

        Raises ConfigError for what can be none.
        """
        if not given:
            return dict(known or {})
        return self._laid(known or {}, given, None, ConfigError)

    @contextmanager
    def laid(
        self, master: AgentRecord, given: Mapping[str, str]
    ) -> Iterator[Sequence[AgentRelabelled]]:
        """Lay labels over a master's for a further run; yield what has to be written of that.

        Where the run does not begin it has those that it had.
        """
        known = master.descriptor.labels
        labels = self.of_run(given, known)
        master.descriptor = replace(master.descriptor, labels=labels)
        write = AgentRelabelled(agent_id=master.agent_id, labels=labels)
        try:
            yield () if labels == known else (write,)
        except BaseException:
            master.descriptor = replace(master.descriptor, labels=known)
            raise

    def of_child(
        self, parent: AgentDescriptor, given: Mapping[str, str | None] | None
    ) -> Mapping[str, str]:
        """Return a new child's labels: its parent's, with those laid over them that it is given.

        Raises AgentSpawnError where these can be none, or the parent is no program.
        """
        if given is None:
            return parent.labels
        owner = self._owner(parent, AgentSpawnError)
        return self._laid(parent.labels, given, owner, AgentSpawnError)

    def of_tool(
        self, agent: AgentDescriptor, changes: Mapping[str, str | None], prefix: str
    ) -> Mapping[str, str]:
        """Return an agent's labels with those laid over them that a tool of a plugin sets.

        Raises OrchestrationError for what can be none, or is not the tool's to set.
        """
        labels = self._laid(agent.labels, changes, prefix, OrchestrationError)
        plain = next((name for name in changes if "/" not in name), None)
        if plain is not None:
            own = f"its own begin with {prefix}/" if prefix else "its plugin names no prefix"
            raise OrchestrationError(
                f"the label {plain} is not this tool's to set", hint=own, code="bad_labels"
            )
        return labels

    def _laid(
        self,
        known: Mapping[str, str],
        changes: Mapping[str, str | None],
        owner: str | None,
        error: type[PrsmError],
    ) -> dict[str, str]:
        from prsm_core.domain.labels import relabelled  # few runs have labels

        fit = self._journal.redact(sanitize(changes))
        return relabelled(known, fit, owner=owner, error=error)

    def _owner(self, agent: AgentDescriptor, error: type[OrchestrationError]) -> str:
        owner = self.program_of(agent.provider)
        if owner is None:
            raise error(
                f"{agent.name} is of provider {agent.provider}, which is no program",
                hint="labels are set by a person, or by a provider with ProviderSpec.program",
                code="no_program",
            )
        return owner

    async def relabel(
        self, life: Life, changes: Mapping[str, str | None], agent: str | None
    ) -> Mapping[str, str]:
        """Change labels of an agent, or of a child of it; see AgentHost."""
        record = life.record
        if life.is_over:
            raise OrchestrationError(f"{record.descriptor.name} has ended", code="agent_ended")
        owner = self._owner(record.descriptor, OrchestrationError)
        target = record if agent is None else self._own(record, agent)
        known = target.descriptor.labels
        labels = self._laid(known, changes, owner, OrchestrationError)
        if labels == known:
            return labels
        target.descriptor = replace(target.descriptor, labels=labels)
        write = AgentRelabelled(agent_id=target.agent_id, labels=labels)
        try:
            await self._steps.write(record, write)
        except Exception as error:
            if not breaks_ledger(error) and target.descriptor.labels is labels:
                target.descriptor = replace(target.descriptor, labels=known)
            raise
        return labels

    def _own(self, record: AgentRecord, agent: str) -> AgentRecord:
        """Return the agent itself, or a child of it, by id or name."""
        if agent in {record.agent_id, record.descriptor.name}:
            return record
        return self._roster.resolve(agent, record.children)

    def children(self, record: AgentRecord) -> Sequence[ChildNow]:
        """Return an agent's children, oldest first; see AgentHost."""
        return tuple(
            _child(self._roster.get(child), self._spent_by(child)) for child in record.children
        )


def _child(record: AgentRecord, spent: Spent) -> ChildNow:
    agent = record.descriptor
    return ChildNow(
        agent_id=agent.agent_id,
        name=agent.name,
        role=agent.role,
        state=record.state,
        incarnation=record.incarnation,
        provider=agent.provider,
        model=agent.model,
        cwd=agent.cwd,
        region=agent.grant.region,
        labels=agent.labels,
        result=record.result if record.has_ended else None,
        spent=spent,
    )
