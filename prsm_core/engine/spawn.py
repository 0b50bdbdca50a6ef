"""Plan new agents: from a spawn request to a descriptor. Nothing here acts.

What an agent hands down is never more than it holds itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from prsm_core.domain.agents import (
    NO_LABELS,
    AgentDescriptor,
    AgentRole,
    AgentState,
    Grant,
    PermissionMode,
)
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
from prsm_core.engine.turns.context import build_role_prompt
from prsm_core.errors import (
    AgentSpawnError,
    ConfigError,
    MaxDepthExceededError,
    ProviderNotAvailableError,
)
from prsm_core.policies.within import is_within

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from prsm_core.config import Settings
    from prsm_core.domain.agents import SpawnRequest
    from prsm_core.domain.ids import Ids
    from prsm_core.domain.notes import ModelChoice
    from prsm_core.domain.tools import McpServer
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.providers.model_choice import Workforce
    from prsm_core.engine.providers.model_names import ModelNames
    from prsm_core.engine.spending import BudgetLedger
    from prsm_core.engine.state import AgentRecord, Leases, Names, Roster
    from prsm_core.engine.workspace_files import Folders
    from prsm_core.interfaces.clock import Clock


def choose_region(
    wanted: Sequence[str] | None, cwd: str, granted: tuple[str, ...] | None, leases: Leases
) -> tuple[str, ...] | None:
    """Return the absolute paths a child may write: as wanted if free, else as granted."""
    if wanted is None:
        return granted
    root = Path(cwd).resolve()
    region = tuple(sorted({str((root / folder).resolve()) for folder in wanted}))
    for folder in region:
        if not is_within(folder, str(root)):
            raise AgentSpawnError(
                f"{folder} is outside {root}",
                hint="choose folders below the child's own",
                code="bad_region",
            )
        if not region_fits((folder,), granted):
            raise AgentSpawnError(
                f"{folder} is not yours to hand down",
                hint=f"you have {', '.join(granted or ())}",
                code="not_granted",
            )
        _check_free(folder, leases)
    return region


def region_fits(child: tuple[str, ...] | None, parent: tuple[str, ...] | None) -> bool:
    """Return whether a parent with one region may hand down the other."""
    if parent is None or child is None:
        return parent is None
    return all(any(is_within(folder, own) for own in parent) for folder in child)


class LeaseTable(Struct, eq=False):
    """Owns the leases of files and folders; each holds as long as its agent lives.

    A region named by a spawn belongs to its agent and those below it; one inherited with the grant
    is shared. Whoever works in a worktree has leased its paths in all of them.
    """

    roster: Roster
    workspaces: Folders
    _lessees: dict[str, AgentRecord] = field(default_factory=dict)  # few of many agents

    def enter(self, record: AgentRecord) -> None:
        """Note a new agent, whose parent is known already."""
        if self._leased(record):
            self._lessees[record.agent_id] = record

    def strike(self, agent_id: str) -> None:
        """Forget an agent that never came to be."""
        self._lessees.pop(agent_id, None)

    def beside(self, agent_id: str | None) -> Leases:
        """Return the leases of live agents neither this one nor above it, at all their paths."""
        if not self._lessees:
            return ()
        lineage = () if agent_id is None else self.roster.lineage(agent_id)
        places = self.workspaces
        cwd = places.main if agent_id is None else self.roster.get(agent_id).descriptor.cwd
        found: dict[tuple[str, str], None] = {}
        for record in self._lessees.values():
            if not record.has_ended and record.agent_id not in lineage:
                for folder in self._leased(record):
                    home, owner = places.home(folder), record.descriptor.name
                    found[(places.seen_from(home, cwd), owner)] = None
                    found[(home, owner)] = None
        return tuple(found)

    def check_still_free(self, record: AgentRecord) -> None:
        """Raise AgentSpawnError if an ended agent's region is another's by now."""
        if record.agent_id in self._lessees:
            leases = self.beside(record.agent_id)
            for folder in self._leased(record):
                _check_free(folder, leases)

    def _leased(self, record: AgentRecord) -> tuple[str, ...]:
        own = record.descriptor.grant.region
        if own is None:  # as most
            return ()
        parent = self.roster.parent_of(record)
        is_inherited = parent is not None and parent.descriptor.grant.region == own
        return () if is_inherited else own


def _check_free(folder: str, leases: Leases) -> None:
    from prsm_core.kit.filenames import fold_of  # few agents have a region

    fold = fold_of(folder)
    wanted = fold(folder)
    for other, owner in leases:
        taken = fold(other)
        if is_within(wanted, taken) or is_within(taken, wanted):
            raise AgentSpawnError(
                f"{folder} is taken: {owner} writes in {other}",
                hint="choose another one, or wait for that agent's end",
                code="region_taken",
            )


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
    """Return an agent's servers by name, sorted.

    Explicit servers are laid over the configured ones. Without any, a configured server with tags
    is only for agents whose role, or a word of whose prompt, is among them.
    """
    if not settings.mcp_servers and not explicit:
        return {}
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
    """Return the grant of a child that uses `model` ("provider/model"), within its parent's."""
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
    return Grant(
        tools=tools,
        mode=mode,
        models=models,
        depth=min(depths, default=None),
        budget=(request.budget or NO_LIMITS).within(parent.budget),
        region=region,
    )


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
    """Return the depth of a new agent; raise MaxDepthExceededError if it is too deep."""
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
    """Return the mode to hand down, never above the ceiling; delegate counts as default."""
    if wanted is None:
        return ceiling
    rung = PermissionMode.DEFAULT if wanted is PermissionMode.DELEGATE else wanted
    return min(rung, ceiling, key=LADDER.index)


def _delegates(mode: PermissionMode | None, tools: frozenset[str]) -> frozenset[str]:
    return tools & READ_TOOLS if mode is PermissionMode.DELEGATE else tools


def choose_tools(request: SpawnRequest, parent: AgentDescriptor) -> frozenset[str]:
    """Return the native tools of a child: as asked or by role, within the parent's grant."""
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
    """Return the folder that a master works in; raise ConfigError if it is none."""
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
    """Return the descriptor of a child, or raise the spawn errors of the specification."""
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

    BYPASS is for a master that cannot write. With other `tools` it works in the run's mode; in PLAN
    all do. One that only delegates has the readers alone.
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
        grant=Grant(tools=NATIVE_TOOLS, budget=settings.budgets.to_budget()),
        mcp_servers=mcp_servers,
        labels=labels,
    )
    return master.in_mode(mode)


def within_parent(agent: AgentDescriptor, parent: AgentDescriptor) -> AgentDescriptor:
    """Return a child that begins again, limited to the mode its parent hands down."""
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
        """Return the agent that a request makes; raise what spawning it would raise."""
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
        """Raise AgentSpawnError unless the run may have `count` agents beyond those enlisted."""
        limit = self.settings.engine.max_agents_per_run
        have = self.roster.size(self.journal.run_id) - enlisted
        if have + count > limit:
            raise AgentSpawnError(
                f"the run has {have} of {limit} agents, which is max_agents_per_run",
                hint="restart one of your children instead",
                code="too_many_agents",
            )

    def describe_stand_in(self, wanted: str | None, agent: AgentDescriptor) -> str:
        """Return a note if an agent has another model than was named, else a blank."""
        if wanted is None or agent.parent_id is None:
            return ""
        names = self.workforce().names
        base = inherited_model(self.roster.get(agent.parent_id).descriptor, names).provider
        meant = names.meant(wanted, base)
        if meant is None or meant == (agent.provider, agent.model):
            return ""
        return describe_stand_in(wanted, meant[0], agent.provider, agent.model, names)

    def team_of(self, agent: AgentDescriptor) -> str:
        """Return what an agent is told of its children's possible models."""
        return self.workforce().team_of(agent)


_REUSABLE = frozenset({AgentState.COMPLETED, AgentState.FAILED})

Fit: TypeAlias = tuple[object, ...]


class IdleChildren:
    """Owns the ended children that are free once their parent has read the result."""

    def __init__(self) -> None:
        # By parent, then by the message that holds the result; with the life that ended.
        self._unread: defaultdict[str, dict[str, tuple[AgentRecord, int]]] = defaultdict(dict)
        self._free: defaultdict[Fit, list[tuple[int, int, AgentRecord]]] = defaultdict(list)

    def ended(self, record: AgentRecord, *, unread: str | None) -> None:
        """Note an end; `unread` is the message that its parent has to read first."""
        parent = record.descriptor.parent_id
        if parent is None or record.state not in _REUSABLE:
            return
        if unread is None:
            self.put_back(record)
        else:
            self._unread[parent][unread] = (record, record.incarnation)

    def read(self, parent_id: str, messages: Iterable[str]) -> None:
        """Note messages that a parent has read."""
        unread = self._unread.get(parent_id, {})
        for message in messages if unread else ():
            if message in unread:
                self._free_again(*unread.pop(message))

    def hold(self, record: AgentRecord, *, unread: str) -> None:
        """Make an ended child wait again until its parent has read its result."""
        free = self._free.get(_fit_of(record.descriptor), [])
        if any(one is record for _, _, one in free):
            free[:] = [entry for entry in free if entry[2] is not record]
            heapify(free)
            self.ended(record, unread=unread)

    def forget_unread(self, parent_id: str) -> None:
        """Note that a parent has a new life, with an empty mailbox."""
        for record, incarnation in self._unread.pop(parent_id, {}).values():
            self._free_again(record, incarnation)

    def pick(self, wanted: AgentDescriptor) -> AgentRecord | None:
        """Take and return a fitting child, if there is one; `put_back` an unused one."""
        free = self._free.get(_fit_of(wanted))
        while free:
            _, incarnation, record = heappop(free)
            # It may have been restarted by its name since, or relabelled, or have a profile.
            is_same = record.incarnation == incarnation and not record.has_profile
            if is_same and record.descriptor.labels == wanted.labels:
                return record
        return None

    def _free_again(self, record: AgentRecord, incarnation: int) -> None:
        if record.incarnation == incarnation:  # else it was restarted by its name meanwhile
            self.put_back(record)

    def put_back(self, record: AgentRecord) -> None:
        """Let an ended child be picked."""
        heappush(self._free[_fit_of(record.descriptor)], (record.birth, record.incarnation, record))


def _fit_of(agent: AgentDescriptor) -> Fit:
    """Return what two agents must have in common for one to take the other's task."""
    who = (agent.parent_id, agent.role, agent.provider, agent.model)
    may = (agent.cwd, agent.tools, agent.mode, agent.grant, frozenset(agent.mcp_servers))
    return (*who, *may, frozenset(agent.labels.items()))
