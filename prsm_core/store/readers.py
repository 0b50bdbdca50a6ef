"""Reading sessions as people see them, and what waits: messages and requests to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.domain.steps import HumanRequest
from prsm_core.interfaces.store import SessionInfo
from prsm_core.store.codec import decode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from sqlite3 import Row

    from prsm_core.domain.rows import Values


def read_shared_snapshots(conn: sqlite3.Connection) -> list[str]:
    """Return the ids of the snapshots of files that forks name."""
    rows = conn.execute("SELECT DISTINCT snapshot_id FROM snapshots JOIN forks USING (session_id)")
    return [snapshot_id for (snapshot_id,) in rows]


def to_grant(row: Row) -> Mapping[str, Any]:
    """Return a grant from its columns."""
    return {**dict(row), "data": decode(row["data"])}


def read_sessions(conn: sqlite3.Connection) -> list[SessionInfo]:
    """Return all sessions, newest first: by when they came, or came back; clocks are set back."""
    rows = conn.execute(
        "SELECT s.session_id, r.run_id, r.status, s.task, s.workspace, s.created_at AS started_at,"
        " (SELECT max(seq) FROM events WHERE session_id = s.session_id) AS last_seq,"
        " (SELECT ts FROM events WHERE session_id = s.session_id ORDER BY seq DESC LIMIT 1)"
        " AS last_at, s.name, (SELECT origin_id FROM forks WHERE session_id = s.session_id"
        " ORDER BY seq DESC LIMIT 1) AS origin, s.aside > r.began AS is_aside,"
        " e.boot_id, e.pid, e.start FROM meta AS s LEFT JOIN runs AS r"
        " ON r.rowid = (SELECT max(rowid) FROM runs WHERE session_id = s.session_id)"
        " LEFT JOIN engines AS e ON e.engine_id = r.engine_id"
        " ORDER BY s.came DESC, s.rowid DESC"
    )
    return [_info(row) for row in rows]


def read_sessions_with(conn: sqlite3.Connection, label: str, text: str, limit: int) -> list[str]:
    """Return the newest sessions in which an agent has this label, newest first."""
    rows = conn.execute(
        "SELECT s.session_id FROM meta AS s WHERE EXISTS (SELECT 1 FROM agents AS a"
        " JOIN agent_specs AS p USING (agent_id), json_each(p.labels) AS l"
        " WHERE a.session_id = s.session_id AND p.labels IS NOT NULL"
        " AND l.key = ? AND l.value = ?) ORDER BY s.came DESC, s.rowid DESC LIMIT ?",
        (label, text, limit),
    )
    return [str(session) for (session,) in rows]


def _info(row: Row) -> SessionInfo:
    names = (name for name in SessionInfo.__struct_fields__ if name != "engine")
    values: dict[str, Any] = {name: row[name] for name in names}
    values |= {"last_seq": row["last_seq"] or 0, "is_aside": bool(row["is_aside"])}
    return SessionInfo(**values, engine=read_engine(row))


def read_engine(row: Values | Row) -> tuple[str, int, Any] | None:
    """Return boot id, pid and start of a run's process, None where it is not known."""
    return None if row["boot_id"] is None else (row["boot_id"], row["pid"], row["start"])


def read_unconsumed(conn: sqlite3.Connection, session_id: str) -> list[RoutedMessage]:
    """Return unconsumed messages, oldest first, except those left to an agent's earlier life."""
    rows = conn.execute(
        "SELECT m.message_id, m.type, m.source, m.target, m.incarnation, m.correlation_id,"
        " m.payload, m.created_at FROM agents AS a JOIN inbox AS m ON m.target = a.agent_id"
        " WHERE a.session_id = ? AND m.ended IS NULL AND m.incarnation = a.incarnation"
        " ORDER BY m.position",
        (session_id,),
    )
    return [to_message(row) for row in rows]


def to_message(row: Row) -> RoutedMessage:
    """Return a message from its columns."""
    return build_message({**dict(row), "payload": decode(row["payload"])})


def build_message(row: Values) -> RoutedMessage:
    """Return a message from its columns, JSON decoded."""
    values = {name: row[name] for name in RoutedMessage.__struct_fields__}
    return RoutedMessage(**{**values, "type": MessageType(row["type"])})


def read_open(conn: sqlite3.Connection, session_id: str) -> list[HumanRequest]:
    """Return the session's open requests, oldest first."""
    rows = conn.execute(
        "SELECT request_id, agent_id, kind, payload, opened_at FROM requests"
        " WHERE session_id = ? AND ended IS NULL ORDER BY rowid",
        (session_id,),
    )
    return [to_request(row) for row in rows]


def to_request(row: Row) -> HumanRequest:
    """Return a request from its columns."""
    return HumanRequest(**{**dict(row), "payload": decode(row["payload"])})
