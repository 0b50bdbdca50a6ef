"""Reading a session as a whole: all in one snapshot of the ledger, hence as of one event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core.interfaces.store import OpenCall, OpenTurn, Picture, RunRow
from prsm_core.store.agent_rows import read_agents
from prsm_core.store.codec import decode
from prsm_core.store.inbox import read_unconsumed
from prsm_core.store.requests import read_open

if TYPE_CHECKING:
    import sqlite3

_LAST_OF_KIND = (
    "SELECT seq, data FROM events WHERE session_id = ? AND agent_id = ? AND type = ?"
    " ORDER BY seq DESC LIMIT 1"
)


def read_picture(conn: sqlite3.Connection, session_id: str) -> list[Picture]:
    """Return the session as it is now; a list of one, since a ledger may be yet to be made."""
    (seq,) = conn.execute(
        "SELECT max(seq) FROM events WHERE session_id = ?", (session_id,)
    ).fetchone()
    agents = read_agents(conn, session_id)
    names = [row.descriptor.agent_id for row in agents]
    return [
        Picture(
            seq=seq or 0,
            run=_read_run(conn, session_id),
            agents=agents,
            requests=read_open(conn, session_id),
            unread=read_unconsumed(conn, session_id),
            turns=[turn for agent in names if (turn := _read_turn(conn, session_id, agent))],
            contexts={
                agent: _read_context(conn, session_id, agent)
                for agent, row in zip(names, agents, strict=True)
                if row.head_turn_id is not None
            },
        )
    ]


def _read_run(conn: sqlite3.Connection, session_id: str) -> RunRow | None:
    row = conn.execute(
        "SELECT run_id, task, status, started_at, finished_at FROM runs"
        " WHERE session_id = ? ORDER BY rowid DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    if row is None:
        return None
    run_id, task, status, started_at, finished_at = row
    return RunRow(
        run_id=run_id, task=task, status=status, started_at=started_at, finished_at=finished_at
    )


def _read_turn(conn: sqlite3.Connection, session_id: str, agent: str) -> OpenTurn | None:
    """Return the turn of an agent that runs: its last, if that has not been closed."""
    row = conn.execute(
        "SELECT id, turn_no, status FROM turns WHERE agent_id = ? ORDER BY turn_no DESC LIMIT 1",
        (agent,),
    ).fetchone()
    if row is None or row[2] != "running":
        return None
    calls = tuple(_read_calls(conn, session_id, agent))
    return OpenTurn(agent_id=agent, turn_id=row[0], number=row[1], calls=calls)


def _read_calls(conn: sqlite3.Connection, session_id: str, agent: str) -> list[OpenCall]:
    """Return the calls of an agent that have begun in its last turn and have not ended."""
    (began, _) = conn.execute(_LAST_OF_KIND, (session_id, agent, "turn_started")).fetchone()
    rows = conn.execute(
        "SELECT type, ts, json_extract(data, '$.call'), json_extract(data, '$.tool') FROM events"
        " WHERE session_id = ? AND agent_id = ? AND seq > ?"
        " AND type IN ('tool_call_started', 'tool_call_finished') ORDER BY seq",
        (session_id, agent, began),
    )
    calls: dict[str, OpenCall] = {}
    for kind, ts, call, tool in rows:
        if kind == "tool_call_started":
            calls[call] = OpenCall(call=call, tool=tool, since=ts)
        else:
            calls.pop(call, None)
    return list(calls.values())


def _read_context(conn: sqlite3.Connection, session_id: str, agent: str) -> Any:
    """Return what the end of an agent's last turn told of its model's window."""
    row = conn.execute(_LAST_OF_KIND, (session_id, agent, "turn_finished")).fetchone()
    return None if row is None else decode(row[1]).get("context")
