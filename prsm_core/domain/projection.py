"""What a step means: whether it may be applied, the rows it changes, the events it tells.

Pure, and the same for every store.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from prsm_core.domain.events import LIVE_TYPES, Event
from prsm_core.domain.record import Record
from prsm_core.domain.rows import Update
from prsm_core.domain.writes import AgentEnded, AgentRestarted, AgentSpawned, Told
from prsm_core.domain.writes.agents import check_incarnation, has_ended, own_fence
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from prsm_core.domain.rows import Ledger, Row
    from prsm_core.domain.steps import Step, Telling, Write
    from prsm_core.domain.writes.forks import SessionForked


class MadeOf(Record, frozen=True, gc=False):
    """What the kinds of a step's writes say about it, whatever these hold."""

    names: str  # tell it from another step of the same id; what is told besides may differ
    is_of_run: bool
    is_of_life: bool
    spawns: bool
    restarts: bool
    ends: bool
    forks: bool


def made_of(step: Step) -> MadeOf:
    """Return what the step's kinds of writes say about it."""
    return _of_kinds(tuple(dict.fromkeys(map(type, step.writes))))


def check_step(step: Step, kinds: MadeOf, ledger: Ledger) -> None:
    """Raise PrsmError unless the ledger is in a state for the step.

    FencedError: an older incarnation, or an ended agent. ClosedBeforeError: its turn is over.
    """
    if step.agent_id is None:
        if not kinds.is_of_run:
            raise StoreError(f"step {step.step_id} names no agent", code="unknown_agent")
    elif not (kinds.spawns and _is_birth(step)):
        fence = own_fence(step, ledger)
        check_incarnation(step, fence, step.incarnation, fence.incarnation + kinds.restarts)
        if kinds.is_of_life and fence.state.is_terminal:
            raise has_ended(fence)
    for write in step.writes:
        write.guard(step, ledger)
    if kinds.ends or kinds.restarts:
        _check_end(step, kinds, ledger)


def rows_of(step: Step) -> list[Row]:
    """Return what the step changes in the ledger's tables, in order."""
    rows: list[Row] = []
    last: Row | None = None
    for write in step.writes:
        for row in write.rows(step):
            if type(row) is Update and type(last) is Update and last.table == row.table:
                joined = _joined(last, row)
                if joined is not None:
                    last = rows[-1] = joined
                    continue
            last = row
            rows.append(row)
    return rows


def _joined(first: Update, second: Update) -> Update | None:
    """Return two changes of the same rows as one; None where they are not, or need the ledger."""
    for row in (first, second):
        if row.refusal is not None or row.computed is not None:
            return None
    if first.where != second.where:
        return None
    return Update(first.table, first.where, {**first.values, **second.values})


def fork_of(step: Step) -> SessionForked | None:
    """Return what a session begins with by a step that forks."""
    from prsm_core.domain.writes.forks import SessionForked  # few processes need it

    return step.find(SessionForked)


def events_of(step: Step, last_seq: int) -> tuple[Event, ...]:
    """Return what the step tells, numbered from `last_seq` on, each at the time it was made.

    Raises StoreError for what is live only.
    """
    session_id, run_id = step.session_id, step.run_id
    events: list[Event] = []
    for write in step.writes:
        for telling in write.events(step):
            seq = last_seq + len(events) + 1
            events.append(event_of(telling, session_id, run_id, write.at, seq))
    return tuple(events)


def event_of(
    telling: Telling, session_id: str, run_id: str, at: float | None = None, seq: int | None = None
) -> Event:
    """Return an event of a run, at its own time unless `at`, with its number.

    Raises StoreError for one that is live only.
    """
    if telling.kind in LIVE_TYPES:
        raise StoreError(f"{telling.kind} events are live only", code="live_event")
    return Event(
        type=telling.kind,
        session=session_id,
        run=run_id,
        ts=telling.at if at is None else at,
        agent=telling.agent_id,
        data=telling.data,
        seq=seq,
    )


@lru_cache(maxsize=1024)  # there are as many as the engine has kinds of acts
def _of_kinds(kinds: tuple[type[Write], ...]) -> MadeOf:
    return MadeOf(
        names=" ".join(kind.__name__ for kind in kinds if kind is not Told),
        is_of_run=all(kind.is_of_run for kind in kinds),
        is_of_life=any(kind.is_of_life for kind in kinds),
        spawns=AgentSpawned in kinds,
        restarts=AgentRestarted in kinds,
        ends=AgentEnded in kinds,
        forks=any(kind.is_fork for kind in kinds),
    )


def _is_birth(step: Step) -> bool:
    birth = step.find(AgentSpawned)
    return birth is not None and birth.agent.agent_id == step.agent_id


def _check_end(step: Step, kinds: MadeOf, ledger: Ledger) -> None:
    """Refuse an end that ends nothing, and a restart that does not lead back to life."""
    state = own_fence(step, ledger).state
    if kinds.ends and not state.is_terminal:
        raise StoreError(f"step {step.step_id} leaves the agent {state}", code="not_ended")
    if kinds.restarts and state.is_terminal:
        raise StoreError(f"step {step.step_id} leaves the agent {state}", code="not_restarted")
