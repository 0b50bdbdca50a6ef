"""Agents: their rows, the fence of their incarnation, their states and results."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentState
from prsm_core.domain.steps import CallCloseStep, ControlStep, SpawnStep, Step, TurnCloseStep
from prsm_core.errors import FencedError, InvalidTransitionError, StoreError
from prsm_core.store.codec import encode, encode_names, encode_optional
from prsm_core.store.known import Fence

if TYPE_CHECKING:
    import sqlite3

    from prsm_core.domain.agents import AgentDescriptor, AgentResult, Grant
    from prsm_core.store.known import WritingConnection

_AFTER_END = (TurnCloseStep, CallCloseStep, ControlStep)


def is_restart(step: Step) -> bool:
    """Return whether the step begins a new incarnation."""
    return isinstance(step, ControlStep) and step.act == "restart"


def check_fence(conn: WritingConnection, step: Step) -> Fence | None:
    """Return the agent's stored state, None for an act of the run.

    Raises FencedError for a step of an older incarnation or of an ended agent.
    """
    if step.agent_id is None:
        _check_for_run(step)
        return None
    if isinstance(step, SpawnStep) and step.agent_id == step.agent.agent_id:
        return _first_fence(step.agent)
    fence = find(conn, step.session_id, step.agent_id)
    if fence is None:
        raise StoreError(
            f"there is no agent {step.agent_id} in session {step.session_id}", code="unknown_agent"
        )
    expected = fence.incarnation + is_restart(step)
    if step.incarnation < expected:
        raise FencedError(
            f"step {step.step_id} is of incarnation {step.incarnation};"
            f" agent {step.agent_id} is at {fence.incarnation}"
        )
    if step.incarnation > expected:
        raise StoreError(
            f"step {step.step_id} is of incarnation {step.incarnation}, but agent"
            f" {step.agent_id} is only at {fence.incarnation}",
            code="bad_incarnation",
        )
    if fence.state.is_terminal and not isinstance(step, _AFTER_END):
        raise _ended(step.agent_id, fence.state)
    return fence


def find(conn: WritingConnection, session_id: str, agent_id: str) -> Fence | None:
    """Return the agent as stored, None where the session has no such agent."""
    fence = conn.known.fences.get(agent_id)
    if fence is None:
        row = conn.execute(
            "SELECT a.session_id, s.label, a.incarnation, a.state, a.next_turn FROM agents AS a"
            " JOIN sessions AS s USING (agent_id) WHERE a.agent_id = ?",
            (agent_id,),
        ).fetchone()
        if row is None:
            return None
        owner, label, incarnation, state, next_turn = row
        fence = Fence(agent_id, owner, label, incarnation, AgentState(state), next_turn)
        conn.known.fences[agent_id] = fence
    return fence if fence.session_id == session_id else None


def spawn(conn: WritingConnection, step: SpawnStep) -> None:
    """Insert the agent's rows and its ledger session."""
    agent = step.agent
    if agent.session_id != step.session_id:
        raise StoreError(
            f"agent {agent.agent_id} is of session {agent.session_id}, its step of"
            f" {step.session_id}",
            code="wrong_session",
        )
    parent_id = agent.parent_id
    parent_label = None if parent_id is None else _parent_label(conn, agent, parent_id)
    conn.execute(
        "INSERT INTO agents (agent_id, session_id, run_id, name, parent_id, depth, role,"
        " provider, model, state, incarnation, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            agent.agent_id,
            agent.session_id,
            agent.run_id,
            agent.name,
            agent.parent_id,
            agent.depth,
            agent.role.value,
            agent.provider,
            agent.model,
            agent.state.value,
            agent.incarnation,
            agent.created_at,
        ),
    )
    _insert_spec(conn, agent)
    _insert_session(conn, agent, parent_label)
    conn.known.fences[agent.agent_id] = _first_fence(agent)


def change_states(conn: WritingConnection, step: Step, state: AgentState, at: float) -> AgentState:
    """Apply the step's changes to its agent in order and return the state they lead to.

    An ended agent leaves its state by a restart only.
    """
    first = state
    for change in step.changes:
        if change.source is not state:
            raise InvalidTransitionError("agent", state, change.target)
        state = change.target
    if first.is_terminal and not state.is_terminal and not is_restart(step):
        raise _ended(step.agent_id, first)
    conn.execute(
        "UPDATE agents SET state = ?, waiting_on = ?,"
        " ended_at = iif(?, coalesce(ended_at, ?), NULL) WHERE agent_id = ?",
        (state.value, step.changes[-1].waiting_on, state.is_terminal, at, step.agent_id),
    )
    _know(conn, step.agent_id, state=state)
    return state


def restart(conn: WritingConnection, step: ControlStep) -> None:
    """Begin the incarnation that the step carries."""
    conn.execute(
        "UPDATE agents SET incarnation = ?, result = NULL, waiting_on = NULL WHERE agent_id = ?",
        (step.incarnation, step.agent_id),
    )
    _know(conn, step.agent_id, incarnation=step.incarnation)
    if step.prompt is not None:
        conn.execute(
            "UPDATE agent_specs SET prompt = ? WHERE agent_id = ?", (step.prompt, step.agent_id)
        )


def switch_model(conn: sqlite3.Connection, step: ControlStep) -> None:
    """Store the model that takes over; the old one's thread means nothing to it."""
    conn.execute(
        "UPDATE agents SET provider = ?, model = ?, resume_token = NULL WHERE agent_id = ?",
        (step.data["provider"], step.data["model"], step.agent_id),
    )
    conn.execute(
        "UPDATE agent_specs SET reasoning_effort = ? WHERE agent_id = ?",
        (step.data["reasoning_effort"], step.agent_id),
    )


def count_turn(conn: WritingConnection, agent_id: str, number: int) -> None:
    """Store that the agent has opened its turn `number`."""
    conn.execute("UPDATE agents SET next_turn = ? WHERE agent_id = ?", (number + 1, agent_id))
    _know(conn, agent_id, next_turn=number + 1)


def store_result(conn: sqlite3.Connection, agent_id: str, result: AgentResult) -> None:
    """Store the agent's result."""
    conn.execute(
        "UPDATE agents SET result = ? WHERE agent_id = ?", (encode(result.to_dict()), agent_id)
    )


def store_token(conn: sqlite3.Connection, agent_id: str, token: str) -> None:
    """Store what resumes the agent at its vendor."""
    conn.execute("UPDATE agents SET resume_token = ? WHERE agent_id = ?", (token, agent_id))


def _check_for_run(step: Step) -> None:
    if step.changes or not isinstance(step, ControlStep | SpawnStep) or is_restart(step):
        raise StoreError(f"step {step.step_id} names no agent", code="unknown_agent")


def _first_fence(agent: AgentDescriptor) -> Fence:
    return Fence(agent.agent_id, agent.session_id, _label(agent), agent.incarnation, agent.state, 1)


def _label(agent: AgentDescriptor) -> str:
    return f"{agent.session_id}/{agent.name}"


def _know(conn: WritingConnection, agent_id: str | None, **fields: Any) -> None:
    """Let the stored agent be known with what was just written to it."""
    fences = conn.known.fences
    if agent_id is not None and agent_id in fences:
        fences[agent_id] = fences[agent_id]._replace(**fields)


def _ended(agent_id: str | None, state: AgentState) -> FencedError:
    return FencedError(f"agent {agent_id} has ended ({state})", hint="Restart it to go on.")


def _parent_label(conn: WritingConnection, agent: AgentDescriptor, parent_id: str) -> str:
    """Return the ledger session of the parent, which must be alive: a kill may have come first."""
    parent = find(conn, agent.session_id, parent_id)
    if parent is None:
        raise StoreError(f"there is no parent agent {parent_id}", code="unknown_agent")
    if parent.state.is_terminal:
        raise _ended(parent_id, parent.state)
    return parent.label


def _insert_spec(conn: sqlite3.Connection, agent: AgentDescriptor) -> None:
    conn.execute(
        "INSERT INTO agent_specs (agent_id, prompt, system_prompt, cwd, mode, tools, grant_tools,"
        " grant_mode, reasoning_effort, mcp_servers, grant_limits)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            agent.agent_id,
            agent.prompt,
            agent.system_prompt,
            agent.cwd,
            agent.mode.value,
            encode_names(agent.tools),
            encode_names(agent.grant.tools),
            agent.grant.mode.value,
            agent.reasoning_effort,
            encode({name: asdict(server) for name, server in agent.mcp_servers.items()}),
            encode_optional(_grant_limits(agent.grant)),
        ),
    )


def _grant_limits(grant: Grant) -> dict[str, Any] | None:
    limits = {
        "models": grant.models,
        "depth": grant.depth,
        "budget": grant.budget.to_dict() or None,
        "model": grant.model,
        "region": grant.region,
    }
    known = {name: limit for name, limit in limits.items() if limit is not None}
    return known or None


def _insert_session(
    conn: sqlite3.Connection, agent: AgentDescriptor, parent_label: str | None
) -> None:
    created_ms = int(agent.created_at * 1000)
    conn.execute(
        "INSERT INTO sessions (label, is_subagent, parent_session_label, session_id, agent_id,"
        " created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            _label(agent),
            parent_label is not None,
            parent_label,
            agent.session_id,
            agent.agent_id,
            created_ms,
            created_ms,
        ),
    )
