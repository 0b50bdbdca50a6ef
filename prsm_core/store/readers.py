"""Reading sessions as people see them, and what waits: messages and requests to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.domain.steps import HumanRequest
from prsm_core.interfaces.store import SessionInfo
from prsm_core.store.codec import decode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence


def read_shared_snapshots(conn: sqlite3.Connection) -> list[str]:
    """Return the ids of the snapshots of files that forks name."""
    rows = conn.execute("SELECT DISTINCT snapshot_id FROM snapshots JOIN forks USING (session_id)")
    return [snapshot_id for (snapshot_id,) in rows]


def to_grant(row: tuple[Any, ...]) -> Mapping[str, Any]:
    """Return a grant from its columns."""
    agent_id, data, created_at = row
    return {"agent_id": agent_id, "data": decode(data), "created_at": created_at}


def read_sessions(conn: sqlite3.Connection) -> list[SessionInfo]:
    """Return all sessions, newest first: by when they came, or came back; clocks are set back."""
    rows = conn.execute(
        "SELECT s.session_id, r.run_id, r.status, s.task, s.workspace, s.created_at,"
        " (SELECT max(seq) FROM events WHERE session_id = s.session_id),"
        " (SELECT ts FROM events WHERE session_id = s.session_id ORDER BY seq DESC LIMIT 1),"
        " s.name, (SELECT origin_id FROM forks WHERE session_id = s.session_id"
        " ORDER BY seq DESC LIMIT 1), s.aside > r.began, e.boot_id, e.pid, e.start"
        " FROM meta AS s LEFT JOIN runs AS r"
        " ON r.rowid = (SELECT max(rowid) FROM runs WHERE session_id = s.session_id)"
        " LEFT JOIN engines AS e ON e.engine_id = r.engine_id"
        " ORDER BY s.came DESC, s.rowid DESC"
    )
    return [_info(*row) for row in rows]


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


def _info(
    session_id: str,
    run_id: str | None,
    status: str | None,
    task: str,
    workspace: str,
    started_at: float,
    seq: int | None,
    last_at: float | None,
    name: str | None,
    origin: str | None,
    is_aside: int | None,
    *engine: Any,
) -> SessionInfo:
    return SessionInfo(
        session_id=session_id,
        run_id=run_id,
        status=status,
        task=task,
        workspace=workspace,
        started_at=started_at,
        last_seq=seq or 0,
        last_at=last_at,
        name=name,
        origin=origin,
        is_aside=bool(is_aside),
        engine=_engine(engine),
    )


def _engine(told: Sequence[Any]) -> tuple[str, int, Any] | None:
    """Return boot id, pid and start of a process, None where it is not known."""
    boot_id, pid, start = told
    return None if boot_id is None else (boot_id, pid, start)


def read_unconsumed(conn: sqlite3.Connection, session_id: str) -> list[RoutedMessage]:
    """Return the messages that the present incarnations have not consumed, oldest first.

    What an agent left unread when it ended stays with the incarnation that ended.
    """
    rows = conn.execute(
        "SELECT m.message_id, m.type, m.source, m.target, m.incarnation, m.correlation_id,"
        " m.payload, m.created_at FROM agents AS a JOIN inbox AS m ON m.target = a.agent_id"
        " WHERE a.session_id = ? AND m.ended IS NULL AND m.incarnation = a.incarnation"
        " ORDER BY m.position",
        (session_id,),
    )
    return [to_message(row) for row in rows]


def to_message(row: tuple[Any, ...]) -> RoutedMessage:
    """Return a message from its columns."""
    message_id, kind, source, target, incarnation, correlation_id, payload, created_at = row
    return RoutedMessage(
        message_id=message_id,
        type=MessageType(kind),
        source=source,
        target=target,
        incarnation=incarnation,
        correlation_id=correlation_id,
        payload=decode(payload),
        created_at=created_at,
    )


def read_open(conn: sqlite3.Connection, session_id: str) -> list[HumanRequest]:
    """Return the session's open requests, oldest first."""
    rows = conn.execute(
        "SELECT request_id, agent_id, kind, payload, opened_at FROM requests"
        " WHERE session_id = ? AND ended IS NULL ORDER BY rowid",
        (session_id,),
    )
    return [to_request(row) for row in rows]


def to_request(row: tuple[Any, ...]) -> HumanRequest:
    """Return a request from its columns."""
    request_id, agent_id, kind, payload, opened_at = row
    return HumanRequest(
        request_id=request_id,
        agent_id=agent_id,
        kind=kind,
        payload=decode(payload),
        opened_at=opened_at,
    )
