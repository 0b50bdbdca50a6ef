"""Permission requests and questions: the first answer wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.steps import HumanRequest, Resolution
from prsm_core.errors import StoreError
from prsm_core.store.codec import decode, encode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence


def open_all(conn: sqlite3.Connection, session_id: str, requests: Sequence[HumanRequest]) -> None:
    """Insert open requests."""
    conn.executemany(
        "INSERT INTO requests (request_id, session_id, agent_id, kind, payload, opened_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (r.request_id, session_id, r.agent_id, r.kind, encode(r.payload), r.opened_at)
            for r in requests
        ],
    )


def resolve(conn: sqlite3.Connection, session_id: str, resolution: Resolution) -> bool:
    """Close a request; False when it was closed before. Raises StoreError for an unknown one."""
    done = conn.execute(
        "UPDATE requests SET state = 'resolved', answer = ?, resolved_by = ?"
        " WHERE request_id = ? AND session_id = ? AND state = 'open'",
        (encode(resolution.answer), resolution.by, resolution.request_id, session_id),
    )
    if done.rowcount:
        return True
    known = conn.execute(
        "SELECT 1 FROM requests WHERE request_id = ? AND session_id = ?",
        (resolution.request_id, session_id),
    ).fetchone()
    if known is None:
        raise StoreError(f"there is no request {resolution.request_id}", code="unknown_request")
    return False


def read_open(conn: sqlite3.Connection, session_id: str) -> list[HumanRequest]:
    """Return the session's open requests, oldest first."""
    rows = conn.execute(
        "SELECT request_id, agent_id, kind, payload, opened_at FROM requests"
        " WHERE session_id = ? AND state = 'open' ORDER BY rowid",
        (session_id,),
    )
    return [
        HumanRequest(
            request_id=request_id,
            agent_id=agent_id,
            kind=kind,
            payload=decode(payload),
            opened_at=opened_at,
        )
        for request_id, agent_id, kind, payload, opened_at in rows
    ]
