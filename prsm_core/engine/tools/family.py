"""Tools that make children: spawn_child, spawn_children_parallel, restart_child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentRole, AgentState, PermissionMode, SpawnRequest
from prsm_core.domain.budgets import Budget
from prsm_core.domain.messages import MessageType
from prsm_core.engine.providers.model_choice import inherited_model
from prsm_core.engine.spawn.mcp_servers import configured_servers
from prsm_core.engine.spawn.plan import describe_child
from prsm_core.engine.tools.communication import describe_message
from prsm_core.engine.turns.calls import Reply, Wait
from prsm_core.errors import AgentSpawnError, PrsmError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core.domain.agents import AgentDescriptor, ExpertProfile
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.tools import McpServer
    from prsm_core.engine.spawn.regions import Leases
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.calls import Call

_FROM_CHILD = frozenset({MessageType.TASK_RESULT, MessageType.QUESTION})


async def spawn_child(call: Call) -> Reply:
    """Spawn a child, or give a finished one that fits the task; with wait, return its result."""
    await _learn_models(call, [call.args])
    await call.open()
    since = call.manager.runtime.ids.ulid()
    child, reused = await _spawn_or_reuse(call, call.args)
    return await _answer(call, child, reused=reused, since=since)


async def spawn_children_parallel(call: Call) -> Reply:
    """Spawn several children; all requests are checked before the first one is spawned."""
    wanted = call.args["children"]
    await _learn_models(call, wanted)
    _check_all(call, wanted)
    await call.open()
    children = []
    for arguments in wanted:
        child, reused = await _spawn_or_reuse(call, arguments)
        children.append(_described(call, child, reused=reused))
    return Reply({"children": children})


async def restart_child(call: Call) -> Reply:
    """Give an ended child a new task and a new incarnation."""
    child = call.manager.roster.resolve(call.args["child_id"], call.record.children)
    await call.open()
    since = call.manager.runtime.ids.ulid()
    await call.manager.restart_agent(child.agent_id, call.args["prompt"])
    return await _answer(call, child, reused=True, since=since)


async def _answer(call: Call, child: AgentRecord, *, reused: bool, since: str) -> Reply:
    """Answer with the child; with wait, also with what it says `since` (a ULID) it began."""
    data = _described(call, child, reused=reused)
    call.spawned_session_label = child.label
    if not call.args.get("wait", False):
        return Reply(data)
    message = await await_child(call, child, since, AgentState.WAITING_FOR_CHILD)
    return Reply(with_message(call, child, message, data))


def with_message(
    call: Call, child: AgentRecord, message: RoutedMessage | None, data: dict[str, Any]
) -> dict[str, Any]:
    """Return what is known of a child, with what it said."""
    if message is None:
        raise AgentSpawnError(
            f"{child.descriptor.name} has ended and its result was read already",
            hint="check_child_status shows it",
        )
    result = describe_message(call, message)
    return {**data, "state": child.state.value, "result": result}


async def await_child(
    call: Call, child: AgentRecord, since: str, state: AgentState
) -> RoutedMessage | None:
    """Wait for the child's result, or its question, whichever comes first after `since`."""

    def fits(message: RoutedMessage) -> bool:
        return (
            message.source == child.agent_id
            and message.type in _FROM_CHILD
            and message.message_id > since
        )

    wait = Wait(
        state=state,
        on=child.descriptor.name,
        targets=lambda: (child.agent_id,),
        ready=lambda: not child.is_live or call.has_unread(fits),
    )
    return await call.receive(wait, fits, otherwise=lambda: not child.is_live)


def describe(child: AgentRecord, *, reused: bool) -> dict[str, Any]:
    """Return what a parent is told of a child it was given."""
    return {
        "agent_id": child.agent_id,
        "name": child.descriptor.name,
        "state": child.state.value,
        "reused": reused,
    }


def _described(call: Call, child: AgentRecord, *, reused: bool) -> dict[str, Any]:
    """Return `describe`, and a note where the child may pass the budget that it was given."""
    provider = child.descriptor.provider
    note = call.manager.runtime.enforcement.describe_budget(provider, child.agent_id)
    return {**describe(child, reused=reused), **({"note": note} if note else {})}


async def learn_models(call: Call, texts: Iterable[str | None]) -> None:
    """Ask the providers of these names whether they have the models, where that is not known."""
    runtime = call.manager.runtime
    own = inherited_model(call.record.descriptor, runtime.model_names)
    await runtime.listings.check(texts, own.provider)


async def _learn_models(call: Call, children: Sequence[Mapping[str, Any]]) -> None:
    profiles = call.manager.runtime.settings.experts
    texts: set[str | None] = set()
    for child in children:
        texts.update((child.get("model"), *child.get("models", ())))
        if (profile := profiles.get(child.get("profile", ""))) is not None:
            texts.add(profile.model)
    await learn_models(call, texts)


def _request(call: Call, arguments: Mapping[str, Any]) -> SpawnRequest:
    tools, region = arguments.get("tools"), arguments.get("region")
    mode, depth = arguments.get("mode"), arguments.get("depth")
    if not arguments["prompt"].strip():
        raise AgentSpawnError("a child needs a task", hint="prompt must not be blank")
    profile = _profile(call, arguments)
    servers = _mcp_servers(call, arguments.get("mcp_servers"))
    if servers is None and profile is not None and profile.mcp_servers:
        servers = dict(profile.mcp_servers)
    return SpawnRequest(
        prompt=arguments["prompt"],
        parent_id=call.record.agent_id,
        role=AgentRole(arguments.get("role", "worker")) if profile is None else profile.role,
        expert=profile,
        name=arguments.get("name"),
        tools=None if tools is None else frozenset(tools),
        model=_model(arguments, profile),
        cwd=arguments.get("cwd"),
        region=None if region is None else tuple(region),
        mcp_servers=servers,
        exclude_plugins=frozenset(_mcp_servers(call, arguments.get("exclude_mcp_servers")) or ()),
        complexity=arguments.get("complexity"),
        mode=None if mode is None else PermissionMode(mode),
        models=None if (models := arguments.get("models")) is None else frozenset(models),
        depth=None if depth is None else int(depth),  # JSON has 2.0, too
        budget=_budget(arguments.get("budget")),
    )


def _model(arguments: Mapping[str, Any], profile: ExpertProfile | None) -> str | None:
    own = None if profile is None else profile.model
    named: str | None = arguments.get("model", own)
    return named


def _profile(call: Call, arguments: Mapping[str, Any]) -> ExpertProfile | None:
    """Return the configured worker or reviewer that a child is to be."""
    wanted = arguments.get("profile")
    if wanted is None:
        return None
    profiles = call.manager.runtime.settings.expert_profiles()
    spawned = {name: p for name, p in profiles.items() if p.role is not AgentRole.EXPERT}
    if wanted not in spawned:
        is_expert = wanted in profiles
        raise AgentSpawnError(
            f"{wanted!r} is an expert" if is_expert else f"there is no profile {wanted!r}",
            hint="consult_expert asks it"
            if is_expert
            else f"profiles: {', '.join(spawned) or 'none are configured'}",
            code="unknown_profile",
        )
    role = spawned[wanted].role
    if arguments.get("role", role.value) != role.value:
        raise AgentSpawnError(f"{wanted!r} is a {role.value}", hint="leave the role out")
    return spawned[wanted]


def _budget(limits: Mapping[str, float] | None) -> Budget | None:
    if limits is None:
        return None
    whole: dict[str, Any] = {name: int(limit) for name, limit in limits.items()}
    return Budget(**{**whole, "usd": limits.get("usd")})


def _mcp_servers(call: Call, names: list[str] | None) -> dict[str, McpServer] | None:
    if names is None:
        return None
    known = configured_servers(call.manager.runtime.settings)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise AgentSpawnError(
            f"no MCP server is named {', '.join(unknown)}",
            hint=f"configured: {', '.join(sorted(known)) or 'none'}",
            code="unknown_mcp_server",
        )
    return {name: known[name] for name in names}


def _check_all(call: Call, children: Sequence[Mapping[str, Any]]) -> None:
    """Raise what spawning any of these would raise, before anything is written."""
    picked: list[AgentRecord] = []
    names: set[str] = set()
    also_leased: Leases = ()
    try:
        for arguments in children:
            request = _request(call, arguments)
            if request.name in names:
                raise AgentSpawnError(
                    f"two children cannot both be named {request.name!r}",
                    hint="choose other names or leave them out",
                )
            fitting = _pick(call, request, call.manager.plan(request))
            if fitting is not None:
                picked.append(fitting)
            elif request.region is not None:
                leased = check_request(call, request, also_leased).grant.region or ()
                also_leased += tuple((folder, "another of these children") for folder in leased)
            if request.name is not None:
                names.add(request.name)
    finally:
        for record in picked:
            call.manager.idle.put_back(record)
    call.manager.check_room(len(children) - len(picked))
    call.manager.runtime.budgets.check_launches(call.record.agent_id, len(children))


def check_request(call: Call, request: SpawnRequest, also_leased: Leases = ()) -> AgentDescriptor:
    """Return the agent that a request would make; raises what spawning it would raise."""
    manager = call.manager
    return describe_child(
        request,
        call.record.descriptor,
        manager.identity(request.name, request),
        workforce=manager.runtime.workforce,
        refused=manager.runtime.enforcement.refused,
        workspace=manager.runtime.workspace,
        mcp_servers={},
        leases=(*manager.leases.beside(request.parent_id), *also_leased),
    )


async def _spawn_or_reuse(call: Call, arguments: Mapping[str, Any]) -> tuple[AgentRecord, bool]:
    """Return a child for a task: one that is free and fits, else a new one, as planned once."""
    manager, request = call.manager, _request(call, arguments)
    plan = manager.plan(request)
    fitting = _pick(call, request, plan)
    if fitting is None:
        return await manager.spawn_agent(request, plan), False
    try:
        return await manager.restart_agent(fitting.agent_id, request.prompt), True
    except PrsmError:
        if not fitting.is_live:  # nothing has come of it
            manager.idle.put_back(fitting)
        raise


def _pick(call: Call, request: SpawnRequest, plan: AgentDescriptor) -> AgentRecord | None:
    """Take a free child of equal role, folder, model, tools and MCP servers, or None."""
    special = (request.name, request.mcp_servers, request.budget, request.expert)
    if any(wish is not None for wish in special):
        return None
    return call.manager.idle.pick(plan)
