"""Agents: their rows, the fence of their incarnation, their states and results."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.domain.agents import AgentState
from prsm_core.domain.steps import CallCloseStep, ControlStep, SpawnStep, Step, TurnCloseStep
from prsm_core.errors import FencedError, InvalidTransitionError, StoreError
from prsm_core.store.codec import encode, encode_names

if TYPE_CHECKING:
    import sqlite3

    from prsm_core.domain.agents import AgentDescriptor, AgentResult

_AFTER_END = (TurnCloseStep, CallCloseStep, ControlStep)


class Fence(NamedTuple):
    """The agent that a step belongs to, as stored before the step."""

    agent_id: str
    incarnation: int
    state: AgentState
    next_turn: int


def is_restart(step: Step) -> bool:
    """Return whether the step begins a new incarnation."""
    return isinstance(step, ControlStep) and step.act == "restart"


def check_fence(conn: sqlite3.Connection, step: Step) -> Fence | None:
    """Return the agent's stored state, None for an act of the run.

    Raises FencedError for a step of an older incarnation or of an ended agent.
    """
    if step.agent_id is None:
        _check_for_run(step)
        return None
    if isinstance(step, SpawnStep) and step.agent_id == step.agent.agent_id:
        return Fence(step.agent_id, step.agent.incarnation, step.agent.state, 1)
    fence = _find(conn, step.session_id, step.agent_id)
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


def spawn(conn: sqlite3.Connection, step: SpawnStep) -> None:
    """Insert the agent's rows and its ledger session."""
    agent = step.agent
    if agent.session_id != step.session_id:
        raise StoreError(
            f"agent {agent.agent_id} is of session {agent.session_id}, its step of"
            f" {step.session_id}",
            code="wrong_session",
        )
    parent_label = None if agent.parent_id is None else _parent_label(conn, agent)
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


def change_states(conn: sqlite3.Connection, step: Step, state: AgentState, at: float) -> AgentState:
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
    return state


def restart(conn: sqlite3.Connection, step: ControlStep) -> None:
    """Begin the incarnation that the step carries."""
    conn.execute(
        "UPDATE agents SET incarnation = ?, result = NULL, waiting_on = NULL WHERE agent_id = ?",
        (step.incarnation, step.agent_id),
    )
    if step.prompt is not None:
        conn.execute(
            "UPDATE agent_specs SET prompt = ? WHERE agent_id = ?", (step.prompt, step.agent_id)
        )


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


def _find(conn: sqlite3.Connection, session_id: str, agent_id: str) -> Fence | None:
    row = conn.execute(
        "SELECT incarnation, state, next_turn FROM agents WHERE agent_id = ? AND session_id = ?",
        (agent_id, session_id),
    ).fetchone()
    return None if row is None else Fence(agent_id, row[0], AgentState(row[1]), row[2])


def _ended(agent_id: str | None, state: AgentState) -> FencedError:
    return FencedError(f"agent {agent_id} has ended ({state})", hint="Restart it to go on.")


def _parent_label(conn: sqlite3.Connection, agent: AgentDescriptor) -> str:
    """Return the ledger session of the parent, which must be alive: a kill may have come first."""
    row = conn.execute(
        "SELECT a.state, s.label FROM agents AS a JOIN sessions AS s USING (agent_id)"
        " WHERE a.agent_id = ? AND a.session_id = ?",
        (agent.parent_id, agent.session_id),
    ).fetchone()
    if row is None:
        raise StoreError(f"there is no parent agent {agent.parent_id}", code="unknown_agent")
    state, label = row
    if AgentState(state).is_terminal:
        raise _ended(agent.parent_id, AgentState(state))
    return str(label)


def _insert_spec(conn: sqlite3.Connection, agent: AgentDescriptor) -> None:
    conn.execute(
        "INSERT INTO agent_specs (agent_id, prompt, system_prompt, cwd, mode, tools, grant_tools,"
        " grant_mode, reasoning_effort, mcp_servers) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        ),
    )


def _insert_session(
    conn: sqlite3.Connection, agent: AgentDescriptor, parent_label: str | None
) -> None:
    created_ms = int(agent.created_at * 1000)
    conn.execute(
        "INSERT INTO sessions (label, is_subagent, parent_session_label, session_id, agent_id,"
        " created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            f"{agent.session_id}/{agent.name}",
            parent_label is not None,
            parent_label,
            agent.session_id,
            agent.agent_id,
            created_ms,
            created_ms,
        ),
    )
