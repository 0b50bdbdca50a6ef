"""What each kind of step writes. Everything here happens inside one savepoint."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prsm_core.domain.steps import (
    AgentEndStep,
    CallCloseStep,
    CallOpenStep,
    ControlStep,
    SpawnStep,
    TurnCloseStep,
    TurnOpenStep,
)
from prsm_core.errors import FencedError, StoreError
from prsm_core.store import agents, event_log, inbox, ledger, requests, runs

if TYPE_CHECKING:
    import sqlite3

    from prsm_core.domain.agents import AgentState
    from prsm_core.domain.steps import CallClose, Committed, Step
    from prsm_core.store.known import Fence, WritingConnection


def apply_step(conn: WritingConnection, step: Step) -> Committed:
    """Apply a step, or return its first result when it was applied before."""
    if not event_log.record(conn, step):
        return event_log.read_committed(conn, step)
    fence = agents.check_fence(conn, step)
    if fence is not None and isinstance(step, TurnCloseStep):
        first = ledger.finish_turn(conn, step, fence.agent_id)
        if first is not None:
            event_log.unrecord(conn, step)
            return event_log.committed_by(conn, step, first)
    # A step has no time of its own; its events carry the engine's clock.
    at = step.events[-1].ts if step.events else time.time()
    if fence is None:
        _write_for_run(conn, step, at)
    else:
        _write_for_agent(conn, step, fence, at)
        _change_states(conn, step, fence, at)
    inbox.send(conn, step.session_id, step.messages)
    return event_log.append_step(conn, step)


def _write_for_run(conn: WritingConnection, step: Step, at: float) -> None:
    if isinstance(step, SpawnStep):
        agents.spawn(conn, step)
    elif isinstance(step, ControlStep):
        _control(conn, step, at)


def _write_for_agent(conn: WritingConnection, step: Step, fence: Fence, at: float) -> None:
    agent_id = fence.agent_id
    match step:
        case SpawnStep():
            agents.spawn(conn, step)
        case TurnOpenStep():
            ledger.open_turn(conn, step, fence)
            inbox.consume(conn, agent_id, step.consumed, step.turn_id)
        case CallOpenStep():
            ledger.open_call(conn, step, agent_id)
        case CallCloseStep():
            _close_call(conn, step.close, agent_id)
        case TurnCloseStep():
            ledger.close_turn(conn, step, agent_id)
            if step.resume_token is not None:
                agents.store_token(conn, agent_id, step.resume_token)
        case AgentEndStep():
            _end(conn, step, agent_id)
        case ControlStep():
            _control(conn, step, at)
            _control_agent(conn, step, fence)
        case _:
            raise StoreError(f"{type(step).__name__} is no kind of step", code="unknown_step")


def _change_states(conn: WritingConnection, step: Step, fence: Fence, at: float) -> None:
    state: AgentState = fence.state
    if step.changes:
        state = agents.change_states(conn, step, state, at)
    if isinstance(step, AgentEndStep) and not state.is_terminal:
        raise StoreError(f"step {step.step_id} leaves the agent {state}", code="not_ended")
    if agents.is_restart(step) and state.is_terminal:
        raise StoreError(f"step {step.step_id} leaves the agent {state}", code="not_restarted")


def _close_call(conn: sqlite3.Connection, close: CallClose, agent_id: str) -> None:
    ledger.close_call(conn, close, agent_id)
    inbox.consume(conn, agent_id, close.consumed, close.call_id)


def _end(conn: sqlite3.Connection, step: AgentEndStep, agent_id: str) -> None:
    agents.store_result(conn, agent_id, step.result)
    if step.close is not None:
        _close_call(conn, step.close, agent_id)
    for resolution in step.resolutions:
        # A person may have answered a moment ago; that answer stands, and the end is an end.
        requests.resolve(conn, step.session_id, resolution)


def _control(conn: sqlite3.Connection, step: ControlStep, at: float) -> None:
    """Write what a control step holds whether it belongs to an agent or to the run."""
    match step.act:
        case "run_started":
            runs.start(conn, step, at)
        case "run_finished":
            runs.finish(conn, step, at)
        case "grant":
            runs.grant(conn, step, at)
    requests.open_all(conn, step.session_id, step.requests)
    for resolution in step.resolutions:
        if not requests.resolve(conn, step.session_id, resolution):
            raise StoreError(
                f"request {resolution.request_id} was answered before",
                hint="The first answer counts.",
                code="already_resolved",
            )


def _control_agent(conn: WritingConnection, step: ControlStep, fence: Fence) -> None:
    agent_id = fence.agent_id
    match step.act:
        case "restart":
            agents.restart(conn, step)
            if not fence.state.is_terminal:
                inbox.readdress(conn, agent_id, step.incarnation)
        case "finishing":
            _finishing(conn, step, fence)
        case "model":
            agents.switch_model(conn, step)
        case "resume_token":
            agents.store_token(conn, agent_id, step.data["token"])
    inbox.consume(conn, agent_id, step.consumed, step.step_id)


def _finishing(conn: sqlite3.Connection, step: ControlStep, fence: Fence) -> None:
    if step.result is None:
        raise StoreError("finishing needs a result", code="no_result")
    if fence.state.is_terminal:
        raise FencedError(f"agent {fence.agent_id} has ended ({fence.state})")
    agents.store_result(conn, fence.agent_id, step.result)
