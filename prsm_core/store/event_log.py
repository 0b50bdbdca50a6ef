"""The event log and the results of steps, which are stretches of it.

A fork's log begins with its origin's, which lies there once and is read under the fork's ids; the
numbers are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.events import LIVE_TYPES, Event
from prsm_core.domain.projection import made_of
from prsm_core.domain.record import Record
from prsm_core.domain.steps import Committed
from prsm_core.errors import StoreError
from prsm_core.store.codec import decode, encode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence

    from prsm_core.domain.steps import Step
    from prsm_core.store.connection import WritingConnection

PAGE = 256
AFTER_ALL = (1 << 63) - 1  # the largest number of SQLite

_INSERT = (
    "INSERT INTO events (session_id, seq, ts, run_id, agent_id, type, data, position)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_RECORD = (
    "INSERT INTO steps (step_id, session_id, kind, first_seq, event_count) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (step_id) WHERE step_id IS NOT NULL DO NOTHING"
)
_SELECT = "SELECT session_id, seq, ts, run_id, agent_id, type, data FROM events"


class Stretch(Record, frozen=True):
    """Part of a session's log: where it lies, and up to which event it is read."""

    session_id: str  # in whose log
    agent: str | None  # what the agent is there, whose events are asked for
    last: int
    names: Mapping[str, str]  # what ids of it are here


def read_names(conn: sqlite3.Connection, session_id: str) -> dict[str, str]:
    """Return the ids of a fork, by what they were in its origins."""
    sql = "SELECT old_id, new_id FROM aliases WHERE session_id = ? ORDER BY old_id"
    return dict(conn.execute(sql, (session_id,)))


def stretches(
    conn: sqlite3.Connection, session_id: str, agent: str | None = None, *, after: int = 0
) -> Sequence[Stretch]:
    """Return a log's parts behind `after`, of an `agent` those with events of it, oldest first."""
    own = Stretch(session_id, agent, AFTER_ALL, {})
    origins = conn.execute(
        "SELECT origin_id, seq FROM forks WHERE session_id = ? AND seq > ? ORDER BY seq",
        (session_id, after),
    ).fetchall()
    if not origins:
        return (own,)
    names = read_names(conn, session_id)
    there = {origin: agent for origin, _ in origins}
    if agent is not None:
        sql = "SELECT origin_id, of_id FROM shared WHERE agent_id = ? AND session_id = ?"
        there = dict(conn.execute(sql, (agent, session_id)))
    return (
        *(
            Stretch(origin, there[origin], last, names)
            for origin, last in origins
            if origin in there
        ),
        own,
    )


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
    by_session: dict[str, list[Event]] = {}
    numbered = []
    for event in events:
        if event.type in LIVE_TYPES:
            raise StoreError(f"{event.type} events are live only", code="live_event")
        own = by_session.setdefault(event.session, [])
        own.append(event)
        numbered.append(event.at(last_seq(conn, event.session) + len(own)))
    for session_id, own in by_session.items():
        last = last_seq(conn, session_id)
        told = (None, session_id, "", last + 1, len(own))
        position = conn.own_cursor.execute(_RECORD, told).lastrowid
        insert_told(conn, own, [text_of(event) for event in own], last, position)
    return tuple(numbered)


def read_page(
    conn: sqlite3.Connection, session_id: str, after: int, agent: str | None
) -> list[Event]:
    """Return the next events after `after`, at most PAGE of them."""
    page: list[Event] = []
    for part in stretches(conn, session_id, agent, after=after):
        query = f"{_SELECT} WHERE session_id = ? AND seq > ? AND seq <= ?"
        values = [part.session_id, after, part.last]
        if agent is not None:
            query, values = f"{query} AND agent_id = ?", [*values, part.agent]
        rows = conn.execute(f"{query} ORDER BY seq LIMIT {PAGE - len(page)}", values)
        page += [_event_here(row, part) for row in rows]
        if len(page) == PAGE:
            break
        after = part.last
    return page


def read_last(
    conn: sqlite3.Connection,
    session_id: str,
    agent: str,
    *,
    kinds: Collection[str],
    limit: int,
    before: int | None,
) -> list[Event]:
    """Return an agent's last events before a seq, in order, by reading from the index's end."""
    marks = ", ".join("?" * len(kinds))
    query = (
        f"{_SELECT} WHERE session_id = ? AND agent_id = ? AND seq <= ? AND type IN ({marks})"
        " ORDER BY seq DESC LIMIT ?"
    )
    newest = AFTER_ALL if before is None else before - 1
    found: list[Event] = []
    for part in reversed(stretches(conn, session_id, agent)):
        if len(found) < limit:
            own = (part.session_id, part.agent, min(newest, part.last))
            rows = conn.execute(query, (*own, *kinds, limit - len(found)))
            found += [_event_here(row, part) for row in rows]
    return found[::-1]


def find_commit(conn: sqlite3.Connection, session_id: str, seq: int) -> tuple[str, int] | None:
    """Return whose commit holds an event, and its position; None where there is none."""
    part = stretches(conn, session_id, after=seq - 1)[0]
    sql = "SELECT session_id, position FROM events WHERE session_id = ? AND seq = ?"
    found = conn.execute(sql, (part.session_id, seq)).fetchone()
    return None if found is None else (found["session_id"], found["position"])


def insert_told(
    conn: WritingConnection,
    events: Sequence[Event],
    texts: Sequence[str],
    last: int,
    position: int | None,
) -> None:
    """Insert events of one session that come after `last`, with their texts."""
    if events:
        rows = [
            (told.session, seq, told.ts, told.run, told.agent, told.type, text, position)
            for seq, (told, text) in enumerate(zip(events, texts, strict=True), last + 1)
        ]
        conn.own_cursor.executemany(_INSERT, rows)
        conn.known.last_seqs[events[0].session] = last + len(events)


def record(conn: WritingConnection, step: Step, kind: str, count: int, last: int) -> int | None:
    """Remember the step, whose events come after `last`; return its position, None if known."""
    told = (step.step_id, step.session_id, kind, last + 1, count)
    done = conn.own_cursor.execute(_RECORD, told)
    return done.lastrowid if done.rowcount else None


def unrecord(conn: sqlite3.Connection, step: Step) -> None:
    """Forget a step that turns out to change nothing."""
    conn.execute("DELETE FROM steps WHERE step_id = ?", (step.step_id,))


def read_committed(conn: sqlite3.Connection, step: Step) -> Committed:
    """Return the first result of a step that was committed before."""
    session_id, kind, events = _result_of(conn, step.step_id)
    if (session_id, kind) != (step.session_id, made_of(step).names):
        raise StoreError(
            f"step {step.step_id} was already committed in session {session_id}: {kind or 'told'}",
            code="step_id_reused",
        )
    return Committed(step_id=step.step_id, events=events, duplicate=True)


def committed_by(conn: sqlite3.Connection, step: Step, first: str) -> Committed:
    """Return the result of the step `first`, which did before what `step` asks for."""
    *_, events = _result_of(conn, first)
    return Committed(step_id=step.step_id, events=events, duplicate=True)


def _result_of(conn: sqlite3.Connection, step_id: str) -> tuple[str, str, tuple[Event, ...]]:
    session_id, kind, first_seq, count = conn.execute(
        "SELECT session_id, kind, first_seq, event_count FROM steps WHERE step_id = ?", (step_id,)
    ).fetchone()
    rows = conn.execute(
        f"{_SELECT} WHERE session_id = ? AND seq >= ? ORDER BY seq LIMIT ?",
        (session_id, first_seq, count),
    )
    return session_id, kind, tuple(_to_event(row) for row in rows)


def text_of(event: Event) -> str:
    """Return what an event tells as JSON."""
    return encode(event.data) if event.data else "{}"


def _event_here(row: tuple[Any, ...], part: Stretch) -> Event:
    event = _to_event(row)
    if not part.names:
        return event
    from prsm_core.domain.renaming import renamed  # few sessions are forks

    return renamed(event, part.names)


def _to_event(row: tuple[Any, ...]) -> Event:
    session, seq, ts, run, agent, kind, data = row
    return Event(
        session=session, seq=seq, ts=ts, run=run, agent=agent, type=kind, data=decode(data)
    )
