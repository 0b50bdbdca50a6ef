"""Spawning: from what a spawn asks for to the descriptor of the new agent. Pure decisions.

What an agent hands down is never more than it holds itself.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from prsm_core.domain.agents import NO_LABELS, AgentDescriptor, AgentRole, Grant, PermissionMode
from prsm_core.domain.budgets import NO_LIMITS
from prsm_core.domain.record import Record
from prsm_core.domain.tools import NATIVE_TOOLS, READ_TOOLS, WRITING_TOOLS
from prsm_core.engine.providers.levels import HINT
from prsm_core.engine.providers.model_choice import (
    choose_child_model,
    describe_stand_in,
    inherited_model,
    resolve_model,
)
from prsm_core.engine.spawn.regions import choose_region
from prsm_core.engine.turns.context import build_role_prompt
from prsm_core.errors import (
    AgentSpawnError,
    ConfigError,
    MaxDepthExceededError,
    ProviderNotAvailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from prsm_core.config import Settings
    from prsm_core.domain.agents import SpawnRequest
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.notes import ModelChoice
    from prsm_core.domain.tools import McpServer
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.providers.model_names import ModelNames
    from prsm_core.engine.providers.team import Workforce
    from prsm_core.engine.spawn.regions import LeaseTable
    from prsm_core.engine.spending.budgets import BudgetLedger
    from prsm_core.engine.state import AgentRecord, Leases, Names, Roster
    from prsm_core.interfaces.clock import Clock


_NONE: dict[str, McpServer] = {}  # of nearly all agents: nobody changes it


def configured_servers(settings: Settings) -> dict[str, McpServer]:
    """Return the MCP servers of the configuration by name."""
    return {name: server.to_server() for name, server in settings.mcp_servers.items()}


def choose_servers(
    settings: Settings,
    *,
    prompt: str,
    role: AgentRole,
    explicit: Mapping[str, McpServer] | None = None,
    exclude: Collection[str] = (),
) -> dict[str, McpServer]:
    """Return the servers of an agent by name, sorted.

    Explicit servers are laid over all that are configured. Without any, a configured server with
    tags is there only for agents whose role or a word of whose prompt is among them.
    """
    if not settings.mcp_servers and not explicit:
        return _NONE
    servers = configured_servers(settings)
    if explicit is not None:
        chosen = {**servers, **explicit}
    else:
        words = {role.value, *re.findall(r"\w+", prompt.casefold())}
        chosen = {
            name: server
            for name, server in servers.items()
            if _fits(settings.mcp_servers[name].tags, words, prompt)
        }
    return {name: chosen[name] for name in sorted(chosen) if name not in exclude}


def _fits(tags: Collection[str], words: Collection[str], prompt: str) -> bool:
    """Whether no tag limits a server, or one is a word, or stands as it is, in the prompt."""
    return not tags or any(
        tag.casefold() in words if tag.isalnum() else tag.casefold() in prompt.casefold()
        for tag in tags
    )


LADDER = (
    PermissionMode.PLAN,
    PermissionMode.DEFAULT,
    PermissionMode.ACCEPT_EDITS,
    PermissionMode.BYPASS,
)


def narrow_grant(
    request: SpawnRequest,
    parent: Grant,
    *,
    tools: frozenset[str],
    mode: PermissionMode,
    model: str,
    region: tuple[str, ...] | None = None,
) -> Grant:
    """Return the grant of a child that uses `model` ("provider/model"), no wider than its parent's.

    Raises MaxDepthExceededError when the parent may have no children, AgentSpawnError for a model
    beyond its grant.
    """
    if parent.depth == 0:
        raise MaxDepthExceededError(
            "you may spawn no agents", hint="do the work yourself, or ask_parent"
        )
    if request.models is not None:
        _check_models(request.models, parent.models)
    models = parent.models if request.models is None else request.models
    _check_models({model}, models)
    below = None if parent.depth is None else parent.depth - 1
    depths = [depth for depth in (request.depth, below) if depth is not None]
    grant = Grant(
        tools=tools,
        mode=mode,
        models=models,
        depth=min(depths, default=None),
        budget=(request.budget or NO_LIMITS).within(parent.budget),
        region=region,
    )
    return _shared(grant)


@lru_cache(maxsize=64)
def _shared(grant: Grant) -> Grant:
    """Return a grant as one value for all who have the same: most siblings do."""
    return grant


def may_spawn(descriptor: AgentDescriptor, settings: Settings) -> bool:
    """Return whether there may be agents below this one."""
    return descriptor.depth < settings.engine.max_agent_depth and descriptor.grant.depth != 0


def _check_models(wanted: frozenset[str] | set[str], granted: frozenset[str] | None) -> None:
    if granted is None or wanted <= granted:
        return
    raise AgentSpawnError(
        f"these models are not for you: {', '.join(sorted(wanted - granted))}",
        hint=f"you may use {', '.join(sorted(granted)) or 'none'}",
        code="not_granted",
    )


_ALIAS = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_OTHERS = frozenset({"user", "the_user", "the-user", "human", "system", "prsm"})  # no agents
_PREFIX = {
    AgentRole.MASTER: "m",
    AgentRole.WORKER: "w",
    AgentRole.EXPERT: "e",
    AgentRole.REVIEWER: "r",
}


def check_depth(depth: int, settings: Settings) -> int:
    """Return the depth of a new agent; raise MaxDepthExceededError when there may be none."""
    limit = settings.engine.max_agent_depth
    if depth > limit:
        raise MaxDepthExceededError(
            f"an agent of depth {depth} exceeds max_agent_depth {limit}",
            hint="do the work yourself or hand it to one of your children",
        )
    return depth


def choose_alias(wanted: str | None, role: AgentRole, taken: Names) -> str:
    """Return the wanted alias, or the next free one of the role (master, w1, w2, r1)."""
    if wanted is None and role is AgentRole.MASTER and "master" not in taken:
        return "master"
    if wanted is None:
        return taken.numbered(_PREFIX[role])
    if not _ALIAS.fullmatch(wanted) or wanted in _OTHERS:
        raise AgentSpawnError(
            f"{wanted!r} is not a name for an agent",
            hint="use lower-case letters, digits, - and _, at most 32",
        )
    if wanted in taken:
        raise AgentSpawnError(
            f"an agent named {wanted!r} exists already", hint="choose another name or leave it out"
        )
    return wanted


def clamp_mode(wanted: PermissionMode | None, ceiling: PermissionMode) -> PermissionMode:
    """Return the mode that may be handed down, never above the ceiling; delegate is default."""
    if wanted is None:
        return ceiling
    rung = PermissionMode.DEFAULT if wanted is PermissionMode.DELEGATE else wanted
    return min(rung, ceiling, key=LADDER.index)


def _delegates(mode: PermissionMode | None, tools: frozenset[str]) -> frozenset[str]:
    """Return the tools that an agent uses itself: in delegate mode these are the readers."""
    return tools & READ_TOOLS if mode is PermissionMode.DELEGATE else tools


def choose_tools(request: SpawnRequest, parent: AgentDescriptor) -> frozenset[str]:
    """Return the native tools of a child: what was asked for, within the parent's grant.

    A child that reads only (expert, reviewer) has the readers, one with a profile its tools.
    Raises AgentSpawnError for an unknown tool or one beyond the grant.
    """
    if request.tools is None and request.expert is not None:
        return request.expert.tools & parent.grant.tools
    if request.tools is None:
        if request.role in {AgentRole.EXPERT, AgentRole.REVIEWER}:
            return READ_TOOLS & parent.grant.tools
        return parent.grant.tools
    unknown = request.tools - NATIVE_TOOLS - parent.grant.tools
    if unknown:
        raise AgentSpawnError(
            f"unknown tools: {', '.join(sorted(unknown))}",
            hint=f"tools are {', '.join(sorted(parent.grant.tools))}",
            code="unknown_tool",
        )
    beyond = request.tools - parent.grant.tools
    if beyond:
        raise AgentSpawnError(
            f"you may not hand down: {', '.join(sorted(beyond))}",
            hint=f"you may hand down {', '.join(sorted(parent.grant.tools))}",
            code="not_granted",
        )
    return request.tools if request.expert is None else request.tools & request.expert.tools


def resolve_cwd(wanted: str | None, base: str, limit: str) -> str:
    """Return an existing folder, relative to `base` and within `limit`; raise AgentSpawnError."""
    if wanted is None:
        return base
    path = (Path(base) / wanted).resolve()
    if not path.is_relative_to(Path(limit).resolve()):
        raise AgentSpawnError(
            f"{wanted} is outside {limit}", hint="choose a folder below it", code="bad_cwd"
        )
    if not path.is_dir():
        raise AgentSpawnError(f"{wanted} is not a folder", hint="create it first", code="bad_cwd")
    return str(path)


def default_cwd(settings: Settings, workspace: str) -> str:
    """Return the folder that a master works in; raises ConfigError for what is none."""
    try:
        return resolve_cwd(settings.defaults.cwd, workspace, workspace)
    except AgentSpawnError as error:
        raise ConfigError(f"defaults.cwd: {error.message}", hint=error.hint) from error


class Identity(Record, frozen=True, kw_only=True):
    """The names a new agent gets."""

    agent_id: str
    name: str
    session_id: str
    run_id: str
    created_at: float


def _with_models(request: SpawnRequest, inherited: ModelChoice, names: ModelNames) -> SpawnRequest:
    """Return a request whose `models` are "provider/model"; one alone is the child's own, too."""
    if request.models is None:
        return request
    models = frozenset(resolve_model(text, inherited, names).name for text in request.models)
    own = request.model
    if own is None and len(models) == 1:
        own = next(iter(models))
    return replace(request, models=models, model=own)


def _choose_model(
    request: SpawnRequest,
    inherited: ModelChoice,
    granted: frozenset[str] | None,
    workforce: Workforce,
    refused: Mapping[str, str],
) -> ModelChoice:
    if request.models is not None:
        granted = request.models if granted is None else request.models & granted
    names, is_gone = workforce.names, workforce.is_gone
    choice = choose_child_model(request, inherited, names, granted, refused, is_gone)
    if choice.provider in refused:
        raise ProviderNotAvailableError(refused[choice.provider], hint=HINT)
    return choice


def describe_child(
    request: SpawnRequest,
    parent: AgentDescriptor,
    identity: Identity,
    *,
    workforce: Workforce,
    refused: Mapping[str, str],
    workspace: str,
    mcp_servers: Mapping[str, McpServer],
    leases: Leases = (),
    labels: Mapping[str, str] = NO_LABELS,
) -> AgentDescriptor:
    """Return the descriptor of a child; raise the spawn errors of the specification.

    `refused` are providers that start no agent, and why; `leases` are the regions of others.
    """
    names, settings = workforce.names, workforce.names.settings
    depth = check_depth(parent.depth + 1, settings)
    inherited = inherited_model(parent, names)
    request = _with_models(request, inherited, names)
    choice = _choose_model(request, inherited, parent.grant.models, workforce, refused)
    tools = choose_tools(request, parent)
    mode = clamp_mode(request.mode, parent.grant.mode)
    cwd = resolve_cwd(request.cwd, parent.cwd, workspace)
    region = choose_region(request.region, cwd, parent.grant.region, leases)
    grant = narrow_grant(
        request, parent.grant, tools=tools, mode=mode, model=choice.name, region=region
    )
    return AgentDescriptor(
        **asdict(identity),
        role=request.role,
        provider=choice.provider,
        model=choice.model,
        reasoning_effort=choice.reasoning_effort,
        prompt=request.prompt,
        system_prompt=_prompt_of_child(request, identity.name, depth, choice, grant, workforce),
        cwd=cwd,
        tools=_delegates(request.mode, tools),
        grant=grant,
        mode=request.mode if request.mode is PermissionMode.DELEGATE else mode,
        parent_id=parent.agent_id,
        depth=depth,
        mcp_servers=mcp_servers,
        labels=labels,
        continues=request.continues,
    )


def _prompt_of_child(
    request: SpawnRequest,
    alias: str,
    depth: int,
    choice: ModelChoice,
    grant: Grant,
    workforce: Workforce,
) -> str:
    """Return the system prompt of a child: who leads is told whom it may have below it."""
    settings = workforce.names.settings
    may_spawn = depth < settings.engine.max_agent_depth and grant.depth != 0
    leads = may_spawn and request.role is AgentRole.WORKER
    return build_role_prompt(
        request.role,
        alias,
        may_spawn=may_spawn,
        experts=settings.expert_profiles().values() if leads else (),
        expert=request.expert,
        region=grant.region,
        team=workforce.describe(choice, grant.models) if leads else "",
    )


def describe_master(
    task: str,
    identity: Identity,
    *,
    workforce: Workforce,
    choice: ModelChoice,
    mode: PermissionMode,
    tools: frozenset[str] | None,
    cwd: str,
    mcp_servers: Mapping[str, McpServer],
    labels: Mapping[str, str] = NO_LABELS,
) -> AgentDescriptor:
    """Return the descriptor of the master: BYPASS, Read, Glob and Grep; its grant is the run's.

    BYPASS is for a master that cannot write: one that has other `tools` works in the run's mode,
    and in PLAN all do. One that only delegates has the readers alone.
    """
    settings = workforce.names.settings
    may_spawn = settings.engine.max_agent_depth > 0
    tools = _delegates(mode, READ_TOOLS if tools is None else tools)
    works = not tools.isdisjoint(WRITING_TOOLS)
    master = AgentDescriptor(
        **asdict(identity),
        role=AgentRole.MASTER,
        provider=choice.provider,
        model=choice.model,
        reasoning_effort=choice.reasoning_effort,
        prompt=task,
        system_prompt=build_role_prompt(
            AgentRole.MASTER,
            identity.name,
            may_spawn=may_spawn,
            is_solo=works,
            experts=settings.expert_profiles().values() if may_spawn else (),
            team=workforce.describe(choice, None) if may_spawn else "",
        ),
        cwd=cwd,
        tools=tools,
        grant=Grant(
            tools=NATIVE_TOOLS,
            budget=settings.budgets.to_budget(),
        ),
        mcp_servers=mcp_servers,
        labels=labels,
    )
    return master.in_mode(mode)


def within_parent(agent: AgentDescriptor, parent: AgentDescriptor) -> AgentDescriptor:
    """Return a child that begins again, in no more than the mode that its parent hands down."""
    granted = clamp_mode(agent.grant.mode, parent.grant.mode)
    mode = agent.mode if agent.mode is PermissionMode.DELEGATE else granted
    return replace(agent, mode=mode, grant=replace(agent.grant, mode=granted))


class Planner(Struct, eq=False):
    """Describes agents by what holds now."""

    roster: Roster
    leases: LeaseTable
    budgets: BudgetLedger
    journal: Journal
    settings: Settings
    # Returns the folder of the session, for who works in this one.
    workspace: Callable[[str], str]
    clock: Clock
    ids: Ids
    # Returns what is known of the models that agents may give their children.
    workforce: Callable[[], Workforce]
    # The providers that start no agent, as it is now, and why.
    refused: Mapping[str, str]
    # Returns those of a new child, by its parent and what is asked for.
    labels: Callable[[AgentDescriptor, Mapping[str, str | None] | None], Mapping[str, str]]

    def identity(self, alias: str | None, request: SpawnRequest) -> Identity:
        """Return the names of a new agent."""
        if alias is not None and self.journal.redactor.text(alias) != alias:
            raise AgentSpawnError(
                "the agent's name holds a secret", hint="choose another name or leave it out"
            )
        return Identity(
            agent_id=self.ids.agent(),
            name=choose_alias(alias, request.role, self.roster.taken_names),
            session_id=self.journal.session_id,
            run_id=self.journal.run_id,
            created_at=self.clock.time(),
        )

    def plan(self, request: SpawnRequest) -> AgentDescriptor:
        """Return the agent that a request makes now; raises what spawning it would raise."""
        if self._parent(request).is_over:
            raise AgentSpawnError(
                "an agent that has ended cannot spawn",
                hint="restart it to go on",
                code="agent_ended",
            )
        servers = choose_servers(
            self.settings,
            prompt=request.prompt,
            role=request.role,
            explicit=request.mcp_servers,
            exclude=request.exclude_plugins,
        )
        return self._describe(self.budgets.clamp(request), servers)

    def check(self, request: SpawnRequest) -> None:
        """Raise what spawning the agent of a request would raise."""
        self._describe(request, {})

    def _parent(self, request: SpawnRequest) -> AgentRecord:
        if request.parent_id is None:
            raise AgentSpawnError("a child needs a parent", hint="the run spawns its master")
        return self.roster.get(request.parent_id)

    def _describe(self, request: SpawnRequest, servers: Mapping[str, McpServer]) -> AgentDescriptor:
        parent = self._parent(request).descriptor
        return describe_child(
            request,
            parent,
            self.identity(request.name, request),
            workforce=self.workforce(),
            refused=self.refused,
            workspace=self.workspace(parent.cwd),
            mcp_servers=servers,
            leases=self.leases.beside(parent.agent_id),
            labels=self.labels(parent, request.labels),
        )

    def check_room(self, count: int, *, enlisted: int = 0) -> None:
        """Raise AgentSpawnError unless the run may have `count` agents more; some are enlisted."""
        limit = self.settings.engine.max_agents_per_run
        have = self.roster.size(self.journal.run_id) - enlisted
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
        names = self.workforce().names
        base = inherited_model(self.roster.get(agent.parent_id).descriptor, names).provider
        meant = names.meant(wanted, base)
        if meant is None or meant == (agent.provider, agent.model):
            return ""
        return describe_stand_in(wanted, meant[0], agent.provider, agent.model, names)

    def team_of(self, agent: AgentDescriptor) -> str:
        """Return what an agent is told of the models that its children may have now."""
        return self.workforce().team_of(agent)
