"""Messages between agents: sent once, consumed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.messages import MessageType, RoutedMessage
from prsm_core.errors import MessageRoutingError, StoreError
from prsm_core.store import agents
from prsm_core.store.codec import decode, encode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from prsm_core.store.known import WritingConnection

_TO_ENDED = frozenset({MessageType.TASK_RESULT, MessageType.KILL_SIGNAL})


def send(conn: WritingConnection, session_id: str, messages: Sequence[RoutedMessage]) -> None:
    """Insert messages; raises MessageRoutingError for a target that cannot get one."""
    if not messages:
        return
    for message in messages:
        _check_target(conn, session_id, message)
    conn.executemany(
        "INSERT INTO inbox (message_id, session_id, type, source, target, incarnation,"
        " correlation_id, payload, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [_to_row(session_id, message) for message in messages],
    )


def consume(
    conn: sqlite3.Connection, agent_id: str, message_ids: Sequence[str], consumed_by: str
) -> None:
    """Mark messages of the agent as used by a turn, a call or a step."""
    for message_id in message_ids:
        done = conn.execute(
            "UPDATE inbox SET consumed_by = ?"
            " WHERE message_id = ? AND target = ? AND consumed_by IS NULL",
            (consumed_by, message_id, agent_id),
        )
        if not done.rowcount:
            raise StoreError(
                f"message {message_id} is no unconsumed message of agent {agent_id}",
                code="not_consumable",
            )


def readdress(conn: sqlite3.Connection, agent_id: str, incarnation: int) -> None:
    """Hand the unconsumed messages of a resumed agent to its new incarnation."""
    conn.execute(
        "UPDATE inbox SET incarnation = ? WHERE target = ? AND consumed_by IS NULL",
        (incarnation, agent_id),
    )


def read_unconsumed(conn: sqlite3.Connection, session_id: str) -> list[RoutedMessage]:
    """Return the messages that the present incarnations have not consumed, oldest first.

    What an agent left unread when it ended stays with the incarnation that ended.
    """
    rows = conn.execute(
        "SELECT m.message_id, m.type, m.source, m.target, m.incarnation, m.correlation_id,"
        " m.payload, m.created_at FROM inbox AS m JOIN agents AS a ON a.agent_id = m.target"
        " WHERE m.session_id = ? AND m.consumed_by IS NULL AND m.incarnation = a.incarnation"
        " ORDER BY m.position",
        (session_id,),
    )
    return [_to_message(row) for row in rows]


def _check_target(conn: WritingConnection, session_id: str, message: RoutedMessage) -> None:
    target = agents.find(conn, session_id, message.target)
    if target is None:
        raise MessageRoutingError(
            f"there is no agent {message.target} in session {session_id}", code="unknown_agent"
        )
    if target.state.is_terminal and message.type not in _TO_ENDED:
        raise MessageRoutingError(
            f"agent {message.target} has ended ({target.state})",
            hint="Restart it to send it a new prompt.",
            code="agent_ended",
        )
    if message.incarnation != target.incarnation:
        raise MessageRoutingError(
            f"message {message.message_id} is for incarnation {message.incarnation} of agent"
            f" {message.target}, which is at {target.incarnation}",
            code="stale",
        )


def _to_row(session_id: str, message: RoutedMessage) -> tuple[object, ...]:
    return (
        message.message_id,
        session_id,
        message.type.value,
        message.source,
        message.target,
        message.incarnation,
        message.correlation_id,
        encode(message.payload),
        message.created_at,
    )


def _to_message(row: tuple[Any, ...]) -> RoutedMessage:
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
