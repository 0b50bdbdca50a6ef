"""Tools that ask for advice: consult_expert, consult_peer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentRole, AgentState, ExpertProfile, SpawnRequest
from prsm_core.engine.tools.family import (
    await_child,
    check_request,
    describe,
    learn_models,
    with_message,
)
from prsm_core.engine.turns.calls import Reply
from prsm_core.errors import AgentSpawnError

if TYPE_CHECKING:
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.calls import Call

_PEER = ExpertProfile(
    expert_id="peer",
    name="peer",
    system_prompt="Another model's agent wants a second opinion. Be frank, and say why.",
)


async def consult_expert(call: Call) -> Reply:
    """Spawn a fresh agent with an expert's profile and return its answer, or its question."""
    expert = _find_expert(call, call.args["expert_id"])
    await learn_models(call, [expert.model])
    request = _request(call, expert, expert.model)
    await call.open()
    since = call.manager.runtime.ids.ulid()
    child = await call.manager.spawn_agent(request)
    return await _advice(call, child, since, expert=expert.expert_id)


async def consult_peer(call: Call) -> Reply:
    """Ask another model for a second opinion; a thread goes on where it stopped."""
    wanted = call.args.get("peer")
    if wanted == "list":
        return Reply({"peers": list(await _peers(call))})
    if "thread_id" in call.args:
        child = _find_thread(call, call.args["thread_id"])
        _check_question(call)
        await call.open()
        since = call.manager.runtime.ids.ulid()
        await call.manager.restart_agent(child.agent_id, call.args["question"])
        return await _advice(call, child, since, thread_id=child.descriptor.name)
    peers = await _peers(call)
    if not peers or (wanted is not None and wanted not in peers):
        raise AgentSpawnError(
            "there is no peer to ask" if wanted is None else f"there is no peer {wanted!r}",
            hint=f"peers: {', '.join(peers) or 'none; defaults.peer_models names some'}",
            code="unknown_peer",
        )
    peer = wanted or peers[0]
    await learn_models(call, [peer])
    request = _request(call, replace(_PEER, model=peer), peer)
    await call.open()
    since = call.manager.runtime.ids.ulid()
    child = await call.manager.spawn_agent(request)
    return await _advice(call, child, since, thread_id=child.descriptor.name)


def _request(call: Call, expert: ExpertProfile, model: str | None) -> SpawnRequest:
    """Return what spawns an adviser; raises what spawning it would raise."""
    _check_question(call)
    request = SpawnRequest(
        prompt=call.args["question"],
        parent_id=call.record.agent_id,
        role=AgentRole.EXPERT,
        model=model,
        mcp_servers=expert.mcp_servers or None,
        expert=expert,
    )
    check_request(call, request)
    return request


async def _advice(call: Call, child: AgentRecord, since: str, **about: str) -> Reply:
    """Wait for what an adviser says `since` it began."""
    call.spawned_session_label = child.label
    message = await await_child(call, child, since, AgentState.WAITING_FOR_EXPERT)
    known: dict[str, Any] = {**describe(child, reused=False), **about}
    return Reply(with_message(call, child, message, known))


def _check_question(call: Call) -> None:
    if not call.args["question"].strip():
        raise AgentSpawnError("there is no question", hint="question must not be blank")


def _find_expert(call: Call, expert_id: str) -> ExpertProfile:
    profiles = call.manager.runtime.settings.expert_profiles()
    experts = {name: p for name, p in profiles.items() if p.role is AgentRole.EXPERT}
    if expert_id not in experts:
        raise AgentSpawnError(
            f"there is no expert {expert_id!r}",
            hint=f"experts: {', '.join(sorted(experts)) or 'none are configured'}",
            code="unknown_expert",
        )
    return experts[expert_id]


def _find_thread(call: Call, thread_id: str) -> AgentRecord:
    """Return the adviser of an earlier consultation of this agent."""
    manager = call.manager
    advisers = [
        child
        for child in call.record.children
        if manager.roster.get(child).descriptor.role is AgentRole.EXPERT
    ]
    return manager.roster.resolve(thread_id, advisers)


async def _peers(call: Call) -> tuple[str, ...]:
    """Return the configured peers, else the default models of the others that can be used."""
    runtime, own = call.manager.runtime, call.record.descriptor.provider
    if runtime.settings.defaults.peers:
        return runtime.settings.defaults.peers
    others = await runtime.enforcement.usable(runtime.providers.offered - {own})
    return tuple(f"{name}/default" for name in others)
