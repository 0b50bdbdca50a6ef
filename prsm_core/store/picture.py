"""Reads a session as a whole: all in one snapshot of the ledger, hence as of one event.

What only the log tells, open calls and how full windows were, is read for each agent once; then the
log is read on from there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from prsm_core.door import OpenTool, RunState
from prsm_core.interfaces.store import OpenCalls, OpenTurn, Picture
from prsm_core.store.agent_rows import read_agents
from prsm_core.store.codec import decode
from prsm_core.store.event_log import stretches
from prsm_core.store.readers import read_open, read_unconsumed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from prsm_core.interfaces.store import AgentRow

# Of a call's event: its id, where that has no escape, and its turn, where it tells one at its end.
_BEGIN = re.compile(r'\{"call":"([^"\\]*)"').match
_END = re.compile(r',"turn":"([^"\\]*)"\}\Z').search
_TURN = '"turn":'  # within a text the quotation marks have escapes
TAIL = 5_000  # events since the last look, beyond which each agent is looked at anew

_LAST_END = (
    "SELECT data FROM events WHERE session_id = ? AND agent_id = ? AND seq <= ?"
    " AND type = 'turn_finished'"
    " ORDER BY seq DESC LIMIT 1"
)
_BACKWARDS = (  # without JSON functions: they read the whole of each row, arguments and results
    "SELECT type, ts, data FROM events WHERE session_id = ? AND agent_id = ? AND seq <= ?"
    " AND type IN ('turn_started', 'tool_call_started', 'tool_call_finished') ORDER BY seq DESC"
)
_LATER = (
    "SELECT agent_id, type, ts, json_extract(data, '$.call'), json_extract(data, '$.tool'),"
    " json_extract(data, '$.turn'), json_extract(data, '$.orchestration'),"
    " json_extract(data, '$.context') FROM events WHERE session_id = ? AND seq > ?"
    " AND type IN ('turn_started', 'turn_finished', 'tool_call_started', 'tool_call_finished')"
    " ORDER BY seq"
)
_TURNS = (
    "SELECT t.agent_id, t.id, t.turn_no FROM agents AS a"
    " JOIN turns AS t ON t.agent_id = a.agent_id AND t.turn_no = a.next_turn - 1"
    " WHERE a.session_id = ? AND t.status = 'running' ORDER BY a.rowid"
)
# Until a turn ends, only calls of orchestration have rows: how many, how many of them are open,
# and how many calls the log tells of an agent's first turn.
_ROWS = (
    "SELECT t.agent_id, (SELECT count(*) FROM tool_calls WHERE turn_id = t.id),"
    " (SELECT count(*) FROM tool_calls WHERE turn_id = t.id AND completed_at IS NULL),"
    " CASE t.turn_no WHEN 1 THEN (SELECT count(*) FROM events AS e WHERE e.agent_id = a.agent_id"
    " AND e.session_id = a.session_id AND e.type = 'tool_call_started') END FROM agents AS a"
    " JOIN turns AS t ON t.agent_id = a.agent_id AND t.turn_no = a.next_turn - 1"
    " WHERE a.session_id = ? AND t.status = 'running'"
)
_HAS_NO_OTHERS = (  # the turn began before the newest so many calls, and after any other
    "SELECT 1 FROM events WHERE session_id = :session AND agent_id = :agent"
    " AND type = 'turn_started' AND seq < (SELECT seq FROM events WHERE session_id = :session"
    " AND agent_id = :agent AND type = 'tool_call_started' ORDER BY seq DESC"
    " LIMIT 1 OFFSET :rows - 1)"
    " AND seq > coalesce((SELECT seq FROM events WHERE session_id = :session"
    " AND agent_id = :agent AND type = 'tool_call_started' ORDER BY seq DESC"
    " LIMIT 1 OFFSET :rows), 0) LIMIT 1"
)


class Pictures:
    """Reads pictures, all by one thread, and keeps what the log told of the last session."""

    def __init__(self) -> None:
        self._log: _Log | None = None

    def read(self, conn: sqlite3.Connection, session_id: str) -> Picture:
        """Return the session as it is now."""
        (seq,) = conn.execute(
            "SELECT max(seq) FROM events WHERE session_id = ?", (session_id,)
        ).fetchone()
        agents = read_agents(conn, session_id)
        turns = conn.execute(_TURNS, (session_id,)).fetchall()
        log = self._read_log(conn, session_id, seq or 0)
        log.complete(conn, agents, [agent for agent, *_ in turns])
        return Picture(
            seq=seq or 0,
            run=_read_run(conn, session_id),
            agents=agents,
            requests=read_open(conn, session_id),
            unread=read_unconsumed(conn, session_id),
            turns=[
                OpenTurn(agent_id=agent, turn_id=turn_id, number=n, calls=log.open_calls(agent))
                for agent, turn_id, n in turns
            ],
            contexts={
                row.descriptor.agent_id: log.contexts[row.descriptor.agent_id]
                for row in agents
                if row.head_turn_id is not None
            },
        )

    def _read_log(self, conn: sqlite3.Connection, session_id: str, seq: int) -> _Log:
        """Return what the log tells up to its end, as far as that is known."""
        log = self._log
        if log is None or log.session_id != session_id or not 0 <= seq - log.seq <= TAIL:
            log = self._log = _Log(session_id)
        elif seq > log.seq:
            log.take(conn.execute(_LATER, (session_id, log.seq)))
        log.seq = seq
        return log


class _Log:
    """What the log of a session tells of those of its agents that were looked at, up to `seq`."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.seq = 0
        self.contexts: dict[str, Any] = {}  # what the end of an agent's last turn told, if anything
        self._calls: dict[str, OpenCalls] = {}  # of its last turn

    def open_calls(self, agent: str) -> tuple[OpenTool, ...]:
        return self._calls[agent].in_order()

    def take(self, rows: Iterable[Sequence[Any]]) -> None:
        """Go on with events, in their order; of others than those looked at nothing is told."""
        for agent, kind, ts, call, tool, turn, orchestration, context in rows:
            if kind == "turn_started":
                self._calls[agent] = OpenCalls()
            elif kind == "turn_finished":
                # SQLite extracts objects and lists as their text.
                self.contexts[agent] = decode(context) if isinstance(context, str) else context
            elif (calls := self._calls.get(agent)) is not None:
                if kind == "tool_call_started":
                    begun = OpenTool(call=call, tool=tool, since=ts)
                    calls.begin(begun, turn, orchestration=bool(orchestration))
                else:
                    calls.end(call, turn)

    def complete(
        self, conn: sqlite3.Connection, agents: Sequence[AgentRow], in_turn: Sequence[str]
    ) -> None:
        if any(agent not in self._calls for agent in in_turn):
            cursor = conn.cursor()
            cursor.row_factory = None  # tuples: nothing is looked for by name
            forks = "SELECT 1 FROM forks WHERE session_id = ?"
            is_fork = cursor.execute(forks, (self.session_id,)).fetchone() is not None
            for agent, *rows in cursor.execute(_ROWS, (self.session_id,)).fetchall():
                if agent not in self._calls:
                    most = None  # of what a fork shares its own log tells nothing
                    if not is_fork:
                        most = _most_open(cursor, self.session_id, agent, *rows)
                    self._calls[agent] = _open_calls(cursor, self.session_id, agent, most)
        for row in agents:
            agent = row.descriptor.agent_id
            if row.head_turn_id is not None and agent not in self.contexts:
                self.contexts[agent] = _read_context(conn, self.session_id, agent)


def _most_open(
    cursor: sqlite3.Cursor, session_id: str, agent: str, rows: int, open_rows: int, told: int | None
) -> int | None:
    """Return how many calls of an agent's last turn may be open; None if only the log tells.

    A call with a row ends in the commit that closes the row. So if each call of the turn has one,
    only open rows are open calls.
    """
    if told == rows:
        return open_rows
    turn = {"session": session_id, "agent": agent, "rows": rows}
    if rows and cursor.execute(_HAS_NO_OTHERS, turn).fetchone() is not None:
        return open_rows
    return None


def _open_calls(cursor: sqlite3.Cursor, session_id: str, agent: str, most: int | None) -> OpenCalls:
    """Return the open calls of an agent's last turn, read from the log's end.

    Reading stops at the turn's begin, or once `most` are found.
    """
    calls = OpenCalls()
    if most == 0:
        return calls
    looking = _Backwards()
    for kind, ts, data in _backwards(cursor, session_id, agent):
        if kind == "turn_started":
            break
        if kind == "tool_call_finished":
            looking.end(data)
        else:
            looking.begin(data, ts)
        if len(looking.found) == most:
            break
    for call, turn, ours in reversed(looking.found):
        calls.begin(call, turn, orchestration=ours)
    return calls


class _Backwards:
    """Finds the open calls of a turn in its events, taken from the last to the first.

    It agrees with OpenCalls, and reads only an id and a turn of most events.
    """

    def __init__(self) -> None:
        self.found: list[tuple[OpenTool, str | None, bool]] = []  # with turn, and whether ours
        self._ended: set[tuple[str, str | None]] = set()
        self._ended_ids: set[str] = set()
        self._begun: set[tuple[str, str | None, bool]] = set()  # an id may come again

    def end(self, data: str) -> None:
        call_id, turn = _name(data)
        self._ended.add((call_id, turn))
        self._ended_ids.add(call_id)

    def begin(self, data: str, at: float) -> None:
        if _name(data) in self._ended:
            return
        told = decode(data)
        call_id, ours = told["call"], bool(told.get("orchestration"))
        turn = told.get("turn") if ours else None
        is_over = ours and turn is None and call_id in self._ended_ids
        if (call_id, turn, ours) not in self._begun and not is_over:
            found = OpenTool(call=call_id, tool=told["tool"], since=at)
            self.found.append((found, turn, ours))
        self._begun.add((call_id, turn, ours))


def _name(data: str) -> tuple[str, str | None]:
    begin, end = _BEGIN(data), _END(data)
    if begin is None or (end is None and _TURN in data):
        told = decode(data)
        return told["call"], told.get("turn")
    return begin[1], None if end is None else end[1]


def _backwards(
    cursor: sqlite3.Cursor, session_id: str, agent: str
) -> Iterator[tuple[str, float, str]]:
    for part in reversed(stretches(cursor.connection, session_id, agent)):
        rows = cursor.execute(_BACKWARDS, (part.session_id, part.agent, part.last))
        yield from iter(rows.fetchone, None)  # whoever reads no further must not close the cursor


def _read_context(conn: sqlite3.Connection, session_id: str, agent: str) -> Any:
    for part in reversed(stretches(conn, session_id, agent)):
        row = conn.execute(_LAST_END, (part.session_id, part.agent, part.last)).fetchone()
        if row is not None:
            return decode(row[0]).get("context")
    return None


def _read_run(conn: sqlite3.Connection, session_id: str) -> RunState | None:
    row = conn.execute(
        "SELECT run_id, task, status, started_at, finished_at, outcome FROM runs"
        " WHERE session_id = ? ORDER BY rowid DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    if row is None:
        return None
    run_id, task, status, started_at, finished_at, outcome = row
    told = {} if outcome is None or status == "running" else decode(outcome)
    return RunState(
        id=run_id,
        task=task,
        status=status,
        started_at=started_at,
        finished_at=finished_at,
        summary=told.get("summary") or "",
        error=told.get("error"),
    )
