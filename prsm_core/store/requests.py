"""Reading permission requests and questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.steps import HumanRequest
from prsm_core.store.codec import decode

if TYPE_CHECKING:
    import sqlite3


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
