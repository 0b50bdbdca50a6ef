"""Reads what waits: messages between agents, and requests to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.domain.steps import HumanRequest
from prsm_core.store.codec import decode

if TYPE_CHECKING:
    import sqlite3


MESSAGE = (  # the columns of `to_message`
    "m.message_id, m.type, m.source, m.target, m.incarnation, m.correlation_id, m.payload,"
    " m.created_at"
)


def read_unconsumed(conn: sqlite3.Connection, session_id: str) -> list[RoutedMessage]:
    """Return the messages that the present incarnations have not consumed, oldest first.

    What an agent left unread when it ended stays with the incarnation that ended.
    """
    rows = conn.execute(
        f"SELECT {MESSAGE} FROM agents AS a JOIN inbox AS m ON m.target = a.agent_id"  # noqa: S608 - names
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
