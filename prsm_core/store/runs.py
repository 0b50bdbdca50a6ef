"""Reading sessions as people see them, their newest runs, and grants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.sessions import RunNow
from prsm_core.interfaces.store import SessionInfo
from prsm_core.store.codec import decode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence


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
        " (SELECT max(seq) FROM events WHERE session_id = s.session_id),"
        " (SELECT ts FROM events WHERE session_id = s.session_id ORDER BY seq DESC LIMIT 1),"
        " s.name, e.boot_id, e.pid, e.start"
        " FROM meta AS s LEFT JOIN runs AS r"
        " ON r.rowid = (SELECT max(rowid) FROM runs WHERE session_id = s.session_id)"
        " LEFT JOIN engines AS e ON e.engine_id = r.engine_id"
        " ORDER BY s.created_at DESC, s.rowid DESC"
    )
    return [_info(*row) for row in rows]


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
        engine=_engine(engine),
    )


def read_runs(conn: sqlite3.Connection, session_id: str) -> list[RunNow]:
    """Return the session's runs, oldest first."""
    rows = conn.execute(
        "SELECT r.run_id, r.task, r.workspace, r.status, r.epoch, r.started_at, r.finished_at,"
        " r.options, r.outcome, e.boot_id, e.pid, e.start"
        " FROM runs AS r LEFT JOIN engines AS e USING (engine_id)"
        " WHERE r.session_id = ? ORDER BY r.rowid",
        (session_id,),
    )
    return [_run(*row) for row in rows]


def _run(
    run_id: str,
    task: str,
    workspace: str,
    status: str,
    epoch: int,
    started_at: float,
    finished_at: float | None,
    options: str | None,
    outcome: str | None,
    *engine: Any,
) -> RunNow:
    return RunNow(
        run_id=run_id,
        task=task,
        workspace=workspace,
        status=status,
        epoch=epoch,
        started_at=started_at,
        finished_at=finished_at,
        options={} if options is None else decode(options),
        outcome=None if outcome is None else decode(outcome),
        engine=_engine(engine),
    )


def _engine(told: Sequence[Any]) -> tuple[str, int, Any] | None:
    """Return boot id, pid and start of a process, None where it is not known."""
    boot_id, pid, start = told
    return None if boot_id is None else (boot_id, pid, start)
