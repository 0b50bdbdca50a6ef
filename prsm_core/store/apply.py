"""Applies a step: its rows and events, inside one savepoint.

Statements and texts are made before, outside the writer: Python and SQLite by turns would push each
other out of the processor's caches, and the ledger is locked for less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from prsm_core.domain.agents import AgentState
from prsm_core.domain.projection import check_step, events_of, fork_of, made_of, rows_of
from prsm_core.domain.rows import Fence
from prsm_core.domain.steps import Committed
from prsm_core.domain.writes.agents import label_of
from prsm_core.domain.writes.turns import ClosedBeforeError
from prsm_core.store import event_log
from prsm_core.store.codec import encode
from prsm_core.store.tables import look_up, run, statements_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from prsm_core.domain.events import Event
    from prsm_core.domain.rows import Values
    from prsm_core.domain.steps import Step
    from prsm_core.store.connection import WritingConnection
    from prsm_core.store.tables import Statement

_FENCE = "SELECT agent_id, a.session_id, name, incarnation, state, next_turn FROM"
_ONE = f"{_FENCE} agents AS a WHERE agent_id = ?"
_THESE = f"{_FENCE} json_each(?) AS these CROSS JOIN agents AS a ON agent_id = these.value"

_STATES = {state.value: state for state in AgentState}


class Prepared(NamedTuple):
    """A step, and how it is written."""

    step: Step
    events: Sequence[Event] = ()  # numbered from 1
    texts: Sequence[str] = ()  # what they tell, as JSON
    statements: Sequence[Statement] = ()  # of its rows
    error: Exception | None = None  # why it cannot be written


class Applied(NamedTuple):
    """A step that has been applied."""

    step_id: str
    events: Sequence[Event]  # numbered from 1
    last: int  # number of the event before the first one

    def committed(self) -> Committed:
        """Return the result, with the numbers that the events have got."""
        events = tuple([event.at(self.last + n) for n, event in enumerate(self.events, 1)])
        return Committed(step_id=self.step_id, events=events)


def prepare(step: Step) -> Prepared:
    """Return a step as the writer wants it; any thread may. Its error is raised when applied."""
    try:
        events = events_of(step, 0)
        texts = [event_log.text_of(event) for event in events]
        return Prepared(step, events, texts, statements_of(rows_of(step)))
    except Exception as error:  # noqa: BLE001 - it is raised when the step is applied
        return Prepared(step, error=error)


def apply_step(conn: WritingConnection, prepared: Prepared) -> Applied | Committed:
    """Apply a step, or return its first result when it was applied before."""
    step, events, texts, statements, error = prepared
    kinds = made_of(step)
    fork = fork_of(step) if kinds.forks else None
    last = event_log.last_seq(conn, step.session_id) if fork is None else fork.seq
    position = event_log.record(conn, step, kinds.names, len(events), last)
    if position is None:
        return event_log.read_committed(conn, step)
    ledger = _Ledger(conn, step.session_id)
    try:
        check_step(step, kinds, ledger)
    except ClosedBeforeError as closed:
        event_log.unrecord(conn, step)
        return event_log.committed_by(conn, step, closed.step_id)
    if error is not None:
        raise error
    run(conn, statements, ledger)
    event_log.insert_told(conn, events, texts, last, position)
    conn.known.fences.update(ledger.changed)
    return Applied(step.step_id, events, last)


class _Ledger:
    def __init__(self, conn: WritingConnection, session_id: str) -> None:
        self._conn = conn
        self._session_id = session_id
        self.changed: dict[str, Fence] = {}

    def agent(self, agent_id: str) -> Fence | None:
        fence = self.changed.get(agent_id) or self._conn.known.fences.get(agent_id)
        if fence is None:
            fence = self._read(_ONE, agent_id).get(agent_id)
        return fence if fence is not None and fence.session_id == self._session_id else None

    def agents(self, agent_ids: Collection[str]) -> Mapping[str, Fence]:
        known = self._conn.known.fences
        if any(agent_id not in known for agent_id in agent_ids):
            self._read(_THESE, encode([*agent_ids]))
        found = {}
        for agent_id in agent_ids:
            fence = self.changed.get(agent_id) or known.get(agent_id)
            if fence is not None and fence.session_id == self._session_id:
                found[agent_id] = fence
        return found

    def _read(self, query: str, asked: str) -> dict[str, Fence]:
        """Take note of the agents that a query finds; return all that are known."""
        known = self._conn.known.fences
        for agent_id, owner, name, incarnation, state, next_turn in self._conn.execute(
            query, (asked,)
        ):
            label = label_of(owner, name)
            known[agent_id] = Fence(agent_id, owner, label, incarnation, _STATES[state], next_turn)
        return known

    def change(self, fence: Fence) -> None:
        self.changed[fence.agent_id] = fence

    def look(self, table: str, where: Values, *columns: str) -> tuple[Any, ...] | None:
        return look_up(self._conn, table, where, columns)
