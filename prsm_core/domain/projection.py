"""What a step means: whether it may be applied, the rows it changes, the events it tells.

Pure, and the same for every store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.events import LIVE_TYPES, Event
from prsm_core.domain.rows import Update
from prsm_core.domain.writes import AgentEnded, AgentRestarted, AgentSpawned
from prsm_core.domain.writes.agents import has_ended, own_fence
from prsm_core.errors import FencedError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_core.domain.rows import Ledger, Row
    from prsm_core.domain.steps import Step, Telling


def check_step(step: Step, ledger: Ledger) -> None:
    """Raise PrsmError unless the ledger is in a state for the step.

    FencedError: it is of an older incarnation, or its agent has ended. ClosedBeforeError: the turn
    it closes is over.
    """
    if step.agent_id is None:
        if not all(write.is_of_run for write in step.writes):
            raise StoreError(f"step {step.step_id} names no agent", code="unknown_agent")
    elif not _is_birth(step):
        _check_fence(step, ledger)
    for write in step.writes:
        write.guard(step, ledger)
    _check_end(step, ledger)


def rows_of(step: Step) -> list[Row]:
    """Return what the step changes in the ledger's tables, in order."""
    rows: list[Row] = []
    for write in step.writes:
        for row in write.rows(step):
            joined = _joined(rows[-1], row) if rows else None
            if joined is None:
                rows.append(row)
            else:
                rows[-1] = joined
    return rows


def events_of(step: Step, last_seq: int) -> tuple[Event, ...]:
    """Return what the step tells, numbered from `last_seq` on."""
    told = [telling for write in step.writes for telling in write.events(step)]
    return tuple(
        event_of(telling, step.session_id, step.run_id, seq)
        for seq, telling in enumerate(told, last_seq + 1)
    )


def event_of(telling: Telling, session_id: str, run_id: str, seq: int | None = None) -> Event:
    """Return an event of a run. Raises StoreError for one that is live only."""
    if telling.kind in LIVE_TYPES:
        raise StoreError(f"{telling.kind} events are live only", code="live_event")
    return Event(
        type=telling.kind,
        session=session_id,
        run=run_id,
        ts=telling.at,
        agent=telling.agent_id,
        data=telling.data,
        seq=seq,
    )


def kind_of(step: Step) -> str:
    """Return what tells the step from another one of the same id: the facts it is made of."""
    return " ".join(_names(step))


def _names(step: Step) -> Iterator[str]:
    """Yield the kinds of a step's writes; what is told besides may differ from try to try."""
    seen: set[str] = set()
    for write in step.writes:
        name = type(write).__name__
        if name not in seen and name != "Told":
            seen.add(name)
            yield name


def _is_birth(step: Step) -> bool:
    birth = step.find(AgentSpawned)
    return birth is not None and birth.agent.agent_id == step.agent_id


def _check_fence(step: Step, ledger: Ledger) -> None:
    fence = own_fence(step, ledger)
    expected = fence.incarnation + (step.find(AgentRestarted) is not None)
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
    if fence.state.is_terminal and any(write.is_of_life for write in step.writes):
        raise has_ended(fence)


def _check_end(step: Step, ledger: Ledger) -> None:
    """Refuse an end that ends nothing, and a restart that does not lead back to life."""
    ends, restarts = step.find(AgentEnded), step.find(AgentRestarted)
    if ends is None and restarts is None:
        return
    state = own_fence(step, ledger).state
    if ends is not None and not state.is_terminal:
        raise StoreError(f"step {step.step_id} leaves the agent {state}", code="not_ended")
    if restarts is not None and state.is_terminal:
        raise StoreError(f"step {step.step_id} leaves the agent {state}", code="not_restarted")


def _joined(last: Row, row: Row) -> Row | None:
    """Return two rows as one where both are news of the same, and nothing depends on either."""
    if not isinstance(row, Update) or not isinstance(last, Update):
        return None
    is_same = (last.table, last.where) == (row.table, row.where)
    if not is_same or last.refusal or row.refusal or last.given or row.given:
        return None
    return last._replace(values={**last.values, **row.values})
