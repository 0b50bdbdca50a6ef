"""The event log and the results of steps, which are stretches of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.events import LIVE_TYPES, Event
from prsm_core.domain.projection import kind_of
from prsm_core.domain.steps import Committed
from prsm_core.errors import StoreError
from prsm_core.store.codec import decode, encode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    from prsm_core.domain.steps import Step
    from prsm_core.store.known import WritingConnection

PAGE = 256
_AFTER_ALL = (1 << 63) - 1  # the largest number of SQLite

_INSERT = (
    "INSERT INTO events (session_id, seq, ts, run_id, agent_id, type, data, position)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_RECORD = (
    "INSERT INTO steps (step_id, session_id, kind, first_seq, event_count) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (step_id) WHERE step_id IS NOT NULL DO NOTHING"
)
_SELECT = "SELECT session_id, seq, ts, run_id, agent_id, type, data FROM events"


def last_seq(conn: WritingConnection, session_id: str) -> int:
    """Return the number of the session's newest event, 0 without any."""
    known = conn.known.last_seqs
    if session_id not in known:
        query = "SELECT max(seq) FROM events WHERE session_id = ?"
        (seq,) = conn.execute(query, (session_id,)).fetchone()
        known[session_id] = seq or 0
    return known[session_id]


def append(conn: WritingConnection, events: Sequence[Event]) -> tuple[Event, ...]:
    """Number the events, each in its own session, and insert them."""
    last = conn.known.last_seqs
    by_session: dict[str, list[Event]] = {}
    numbered = []
    for event in events:
        if event.type in LIVE_TYPES:
            raise StoreError(f"{event.type} events are live only", code="live_event")
        seq = last_seq(conn, event.session) + 1
        event = event.at(seq)
        numbered.append(event)
        by_session.setdefault(event.session, []).append(event)
        last[event.session] = seq
    for session_id, own in by_session.items():
        told = (None, session_id, "", own[0].seq, len(own))
        insert(conn, own, conn.own_cursor.execute(_RECORD, told).lastrowid)
    return tuple(numbered)


def insert(conn: WritingConnection, events: Sequence[Event], position: int | None) -> None:
    """Insert events of one session that have their numbers, by the commit at `position`."""
    if events:
        conn.own_cursor.executemany(_INSERT, [_to_row(event, position) for event in events])
        last = events[-1]
        conn.known.last_seqs[last.session] = last.seq or 0


def read_page(
    conn: sqlite3.Connection, session_id: str, after: int, agent: str | None
) -> list[Event]:
    """Return the next events after `after`, at most PAGE of them."""
    query, values = f"{_SELECT} WHERE session_id = ? AND seq > ?", [session_id, after]
    if agent is not None:
        query, values = f"{query} AND agent_id = ?", [*values, agent]
    rows = conn.execute(f"{query} ORDER BY seq LIMIT {PAGE}", values)
    return [_to_event(row) for row in rows]


def read_last(
    conn: sqlite3.Connection,
    session_id: str,
    agent: str,
    *,
    kinds: Collection[str],
    limit: int,
    before: int | None,
) -> list[Event]:
    """Return the agent's last events of these kinds with seq < `before`, in order.

    The index of an agent's events is read from its end, so that what came long before costs
    nothing.
    """
    marks = ", ".join("?" * len(kinds))
    rows = conn.execute(
        f"{_SELECT} WHERE session_id = ? AND agent_id = ? AND seq < ? AND type IN ({marks})"
        " ORDER BY seq DESC LIMIT ?",
        (session_id, agent, _AFTER_ALL if before is None else before, *kinds, limit),
    )
    return [_to_event(row) for row in rows][::-1]


def record(
    conn: WritingConnection, step: Step, kind: str, events: Sequence[Event], last: int
) -> int | None:
    """Remember the step, whose events come after `last`; None when it was remembered before.

    Returns its position: the number of the commit.
    """
    told = (step.step_id, step.session_id, kind, last + 1, len(events))
    done = conn.own_cursor.execute(_RECORD, told)
    return done.lastrowid if done.rowcount else None


def unrecord(conn: sqlite3.Connection, step: Step) -> None:
    """Forget a step that turns out to change nothing."""
    conn.execute("DELETE FROM steps WHERE step_id = ?", (step.step_id,))


def read_committed(conn: sqlite3.Connection, step: Step) -> Committed:
    """Return the first result of a step that was committed before."""
    session_id, kind, first_seq, count = conn.execute(
        "SELECT session_id, kind, first_seq, event_count FROM steps WHERE step_id = ?",
        (step.step_id,),
    ).fetchone()
    if (session_id, kind) != (step.session_id, kind_of(step)):
        raise StoreError(
            f"step {step.step_id} was already committed in session {session_id}: {kind or 'told'}",
            code="step_id_reused",
        )
    return Committed(
        step_id=step.step_id, events=_stretch(conn, session_id, first_seq, count), duplicate=True
    )


def committed_by(conn: sqlite3.Connection, step: Step, first: str) -> Committed:
    """Return the result of the step `first`, which did before what `step` asks for."""
    session_id, first_seq, count = conn.execute(
        "SELECT session_id, first_seq, event_count FROM steps WHERE step_id = ?", (first,)
    ).fetchone()
    events = _stretch(conn, session_id, first_seq, count)
    return Committed(step_id=step.step_id, events=events, duplicate=True)


def _stretch(
    conn: sqlite3.Connection, session_id: str, first_seq: int, count: int
) -> tuple[Event, ...]:
    rows = conn.execute(
        f"{_SELECT} WHERE session_id = ? AND seq >= ? ORDER BY seq LIMIT ?",
        (session_id, first_seq, count),
    )
    return tuple(_to_event(row) for row in rows)


def _to_row(event: Event, position: int | None) -> tuple[object, ...]:
    data = encode(event.data) if event.data else "{}"
    return (event.session, event.seq, event.ts, event.run, event.agent, event.type, data, position)


def _to_event(row: tuple[Any, ...]) -> Event:
    session, seq, ts, run, agent, kind, data = row
    return Event(
        session=session, seq=seq, ts=ts, run=run, agent=agent, type=kind, data=decode(data)
    )
