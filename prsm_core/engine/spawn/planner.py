"""The planner: what the agent of a request would be now, before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.engine.providers.model_choice import inherited_model
from prsm_core.engine.spawn.mcp_servers import choose_servers
from prsm_core.engine.spawn.plan import Identity, choose_alias, describe_child
from prsm_core.errors import AgentSpawnError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prsm_core.config import Settings
    from prsm_core.domain.agents import AgentDescriptor, SpawnRequest
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.tools import McpServer
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.providers.team import Workforce
    from prsm_core.engine.spawn.regions import LeaseTable
    from prsm_core.engine.spending.budgets import BudgetLedger
    from prsm_core.engine.state import Leases, Roster
    from prsm_core.interfaces.clock import Clock


class Planner:
    """Describes agents by what holds now."""

    def __init__(
        self,
        roster: Roster,
        leases: LeaseTable,
        budgets: BudgetLedger,
        journal: Journal,
        *,
        settings: Settings,
        workspace: Callable[[str], str],
        clock: Clock,
        ids: Ids,
        workforce: Callable[[], Workforce],
        refused: Mapping[str, str],
        labels: Callable[[AgentDescriptor, Mapping[str, str | None] | None], Mapping[str, str]],
    ) -> None:
        """Begin with what never changes, and with what to ask.

        Args:
            roster: Has all agents, and the names that are taken.
            leases: Has the regions of all.
            budgets: Has what is left to hand down.
            journal: Knows session and run, and what is secret.
            settings: The engine's.
            workspace: Returns the folder of the session, for who works in this one.
            clock: Tells the time.
            ids: Makes ids.
            workforce: Returns what is known of the models that agents may give their children.
            refused: The providers that start no agent, as it is now, and why.
            labels: Returns those of a new child, by its parent and what is asked for.
        """
        self._roster = roster
        self._leases = leases
        self._budgets = budgets
        self._journal = journal
        self._settings = settings
        self._workspace = workspace
        self._clock = clock
        self._ids = ids
        self._workforce = workforce
        self._refused = refused
        self._labels = labels

    def identity(self, alias: str | None, request: SpawnRequest) -> Identity:
        """Return the names of a new agent."""
        if alias is not None and self._journal.redactor.text(alias) != alias:
            raise AgentSpawnError(
                "the agent's name holds a secret", hint="choose another name or leave it out"
            )
        return Identity(
            agent_id=self._ids.agent(),
            alias=choose_alias(alias, request.role, self._roster.taken_names),
            session_id=self._journal.session_id,
            run_id=self._journal.run_id,
            created_at=self._clock.time(),
        )

    def plan(self, request: SpawnRequest) -> AgentDescriptor:
        """Return the agent that a request makes now; raises what spawning it would raise."""
        parent_id = request.parent_id
        if parent_id is None:
            raise AgentSpawnError("a child needs a parent", hint="the run spawns its master")
        if self._roster.get(parent_id).is_over:
            raise AgentSpawnError(
                "an agent that has ended cannot spawn",
                hint="restart it to go on",
                code="agent_ended",
            )
        servers = choose_servers(
            self._settings,
            prompt=request.prompt,
            role=request.role,
            explicit=request.mcp_servers,
            exclude=request.exclude_plugins,
        )
        request = self._budgets.clamp(request)
        return self._describe(request, parent_id, servers, self._leases.beside(parent_id))

    def check(self, request: SpawnRequest) -> None:
        """Raise what spawning the agent of a request would raise."""
        parent_id = request.parent_id
        if parent_id is None:
            raise AgentSpawnError("a child needs a parent", hint="the run spawns its master")
        self._describe(request, parent_id, {}, self._leases.beside(parent_id))

    def _describe(
        self,
        request: SpawnRequest,
        parent_id: str,
        servers: Mapping[str, McpServer],
        leases: Leases,
    ) -> AgentDescriptor:
        parent = self._roster.get(parent_id).descriptor
        return describe_child(
            request,
            parent,
            self.identity(request.name, request),
            workforce=self._workforce(),
            refused=self._refused,
            workspace=self._workspace(parent.cwd),
            mcp_servers=servers,
            leases=leases,
            labels=self._labels(parent, request.labels),
        )

    def check_room(self, count: int, *, enlisted: int = 0) -> None:
        """Raise AgentSpawnError unless the run may have `count` agents more; some are enlisted."""
        limit = self._settings.engine.max_agents_per_run
        have = self._roster.size(self._journal.run_id) - enlisted
        if have + count > limit:
            raise AgentSpawnError(
                f"the run has {have} of {limit} agents, which is max_agents_per_run",
                hint="restart one of your children instead",
                code="too_many_agents",
            )

    def describe_stand_in(self, wanted: str | None, agent: AgentDescriptor) -> str:
        """Return what is told of an agent that has another model than it was named; else blank."""
        if wanted is None or agent.parent_id is None:
            return ""
        names = self._workforce().names
        base = inherited_model(self._roster.get(agent.parent_id).descriptor, names).provider
        meant = names.meant(wanted, base)
        if meant is None or meant == (agent.provider, agent.model):
            return ""
        from prsm_core.engine.providers.standing_in import describe_stand_in  # few have one

        return describe_stand_in(wanted, meant[0], agent.provider, agent.model, names)

    def team_of(self, agent: AgentDescriptor) -> str:
        """Return what an agent is told of the models that its children may have now."""
        return self._workforce().team_of(agent)
