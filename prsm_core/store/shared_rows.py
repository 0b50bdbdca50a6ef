"""The rows that a fork shares, as its own: a copy of it holds all, and needs no other session."""
# ruff: noqa: S608 - all of it is made of names

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.domain.renaming import renamed
from prsm_core.store.event_log import read_names, stretches

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

_AGENT = "IN (SELECT of_id FROM shared WHERE session_id = :fork AND origin_id = :session)"
_UNTIL = "(SELECT position FROM forks WHERE session_id = :fork AND origin_id = :session)"
_TURNS = f"agent_id {_AGENT} AND ended <= {_UNTIL}"
_OF_TURN = f"turn_id IN (SELECT id FROM turns WHERE {_TURNS})"
# What was over by the commit of the fork, and told by the event `:seq`; what was open is its own.
_SHARED = {
    "turns": _TURNS,
    "messages": _OF_TURN,
    "tool_calls": _OF_TURN,
    "effects": _OF_TURN,
    "compactions": _OF_TURN,
    "threads": _OF_TURN,
    "session_history": f"thread_id IN (SELECT id FROM turns WHERE {_TURNS})",
    "inbox": f"target {_AGENT} AND ended <= {_UNTIL}",
    "requests": f"agent_id {_AGENT} AND ended <= {_UNTIL}",
    "events": "session_id = :session AND seq <= :seq",
    "steps": f"session_id = :session AND position <= {_UNTIL}",
}
_READ = ("consumed_by", "ended")


def add_shared(
    conn: sqlite3.Connection,
    session_id: str,
    copy: dict[str, list[dict[str, Any]]],
    order: Mapping[str, str],
    told: Callable[[str, dict[str, Any]], dict[str, Any]],
) -> int:
    """Put what a fork shares in front of its own rows, `told` as JSON values.

    Return how many commits of it there are.
    """
    shared = _shared_rows(conn, session_id, order, told)
    read = {row["message_id"]: row for row in reversed(shared["inbox"])}  # the first one counts
    for row in copy["inbox"]:  # of a question that is open it has a row, which hides who read it
        then = read.pop(row["message_id"], row)
        row |= {name: then[name] for name in _READ}
    shared["inbox"] = [row for row in shared["inbox"] if read.get(row["message_id"]) is row]
    for table, rows in shared.items():
        copy[table][:0] = rows
    # An own turn may be higher up than a shared one of another agent.
    copy["threads"].sort(key=lambda row: (row["depth"], row["turn_id"]))
    return len(shared["steps"])


def _shared_rows(
    conn: sqlite3.Connection,
    session_id: str,
    order: Mapping[str, str],
    told: Callable[[str, dict[str, Any]], dict[str, Any]],
) -> dict[str, list[dict[str, Any]]]:
    """Return by table what a session shares with its origins, oldest first."""
    found: dict[str, list[dict[str, Any]]] = {table: [] for table in _SHARED}
    names = read_names(conn, session_id)
    for part in stretches(conn, session_id)[:-1]:
        wanted = {"fork": session_id, "session": part.session_id, "seq": part.last}
        for table, condition in _SHARED.items():
            by = order.get(table, "rowid")
            sql = f"SELECT * FROM {table} WHERE {condition} ORDER BY {by}"
            rows = (dict(row) for row in conn.execute(sql, wanted))
            found[table] += [renamed(told(table, row), names) for row in rows]
    return found
