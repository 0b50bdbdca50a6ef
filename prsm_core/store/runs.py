"""Sessions as people see them, the runs in them, the engines that owned the runs, and grants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.errors import StoreError
from prsm_core.interfaces.store import SessionInfo
from prsm_core.store.codec import decode, encode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from prsm_core.domain.steps import ControlStep


def start(conn: sqlite3.Connection, step: ControlStep, at: float) -> None:
    """Insert the run, and the session with its first run."""
    task, workspace = step.data.get("task") or "", step.data.get("workspace") or ""
    conn.execute(
        "INSERT INTO meta (session_id, task, workspace, created_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (step.session_id, task, workspace, at),
    )
    conn.execute(
        "INSERT INTO runs (run_id, session_id, engine_id, task, workspace, status, started_at)"
        " VALUES (?, ?, ?, ?, ?, 'running', ?)",
        (step.run_id, step.session_id, _engine(conn, step.data), task, workspace, at),
    )


def finish(conn: sqlite3.Connection, step: ControlStep, at: float) -> None:
    """Close the run; raises StoreError unless it is running."""
    status = step.data.get("status")
    if not isinstance(status, str):
        raise StoreError("run_finished needs a status", code="no_status")
    done = conn.execute(
        "UPDATE runs SET status = ?, outcome = ?, finished_at = ?"
        " WHERE run_id = ? AND session_id = ? AND status = 'running'",
        (status, encode(step.data), at, step.run_id, step.session_id),
    )
    if not done.rowcount:
        raise StoreError(f"run {step.run_id} is not running", code="not_running")


def grant(conn: sqlite3.Connection, step: ControlStep, at: float) -> None:
    """Remember what a person allowed for the agent and its subtree."""
    conn.execute(
        "INSERT INTO grants (session_id, agent_id, data, created_at) VALUES (?, ?, ?, ?)",
        (step.session_id, step.agent_id, encode(step.data), at),
    )


def read_grants(conn: sqlite3.Connection, session_id: str) -> list[Mapping[str, Any]]:
    """Return the session's grants, oldest first: agent_id, data, created_at."""
    rows = conn.execute(
        "SELECT agent_id, data, created_at FROM grants WHERE session_id = ? ORDER BY grant_id",
        (session_id,),
    )
    return [
        {"agent_id": agent_id, "data": decode(data), "created_at": created_at}
        for agent_id, data, created_at in rows
    ]


def read_sessions(conn: sqlite3.Connection) -> list[SessionInfo]:
    """Return all sessions, newest first."""
    rows = conn.execute(
        "SELECT s.session_id, r.run_id, r.status, s.task, s.workspace, s.created_at,"
        " (SELECT max(seq) FROM events WHERE session_id = s.session_id)"
        " FROM meta AS s LEFT JOIN runs AS r"
        " ON r.rowid = (SELECT max(rowid) FROM runs WHERE session_id = s.session_id)"
        " ORDER BY s.created_at DESC, s.rowid DESC"
    )
    return [
        SessionInfo(
            session_id=session_id,
            run_id=run_id,
            status=status,
            task=task,
            workspace=workspace,
            started_at=started_at,
            last_seq=seq or 0,
        )
        for session_id, run_id, status, task, workspace, started_at, seq in rows
    ]


def _engine(conn: sqlite3.Connection, data: Mapping[str, Any]) -> int | None:
    """Return the row of the engine that `data` names by pid, start and boot_id, if it does."""
    if "pid" not in data:
        return None
    identity = (data["boot_id"], data["pid"], data["start"])
    conn.execute(
        "INSERT INTO engines (boot_id, pid, start) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        identity,
    )
    row = conn.execute(
        "SELECT engine_id FROM engines WHERE boot_id = ? AND pid = ? AND start = ?", identity
    ).fetchone()
    return int(row[0])
