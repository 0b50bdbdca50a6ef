"""SQL that reads a session as it was after the commit `:at`: what the schema keeps.

A row of a table `…_past` says what held until, but not in, a commit. What held after `:at` is the
first of them with a greater `until`, else the row itself.
"""
# ruff: noqa: S608 - all of it is made of names

from __future__ import annotations

from prsm_core.domain.changes import CHANGE_COLUMNS
from prsm_core.domain.sessions import SessionSnapshot
from prsm_core.store.agent_rows import SUMS
from prsm_core.store.open_turn import TOLD

_USED = (
    *("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "total_tokens", "cost_usd", "usage_provenance", "cost_provenance"),
)


def _past(of: str, table: str, key: str, own: str = "", also: str = "") -> str:
    """Return the join of rows with what held after `:at`, where they say something else now.

    Their key is `key`, which they call `own`; and `also`.
    """
    is_own = {key: own or key, **({also: also} if also else {})}

    def rows(past: str) -> str:
        return " AND ".join(f"{past}.{name} = {of}.{mine}" for name, mine in is_own.items())

    until = f"(SELECT min(until) FROM {table} AS x WHERE {rows('x')} AND x.until > :at)"
    return f" LEFT JOIN {table} AS {of}_p ON {rows(f'{of}_p')} AND {of}_p.until = {until}"


def _then(of: str, *names: str, now: str = "{of}.{name}") -> str:
    """Return columns as they were; `now` is what holds where nothing else is kept."""
    columns = ((name, now.format(of=of, name=name)) for name in names)
    return ", ".join(
        f"iif({of}_p.until IS NULL, {now}, {of}_p.{name}) AS {name}" for name, now in columns
    )


# The commits without events have an index of their own; the others are told by the log.
NEWEST = """
SELECT max(0,
  coalesce((SELECT position FROM events WHERE session_id = :session ORDER BY seq DESC LIMIT 1), 0),
  coalesce((SELECT max(position) FROM steps WHERE session_id = :session AND event_count = 0), 0))
"""
LAST_SEQ = "SELECT max(seq) FROM events WHERE session_id = :session"
SEQ_OF = (
    "SELECT first_seq + event_count - 1 FROM steps WHERE position = :at AND session_id = :session"
)
SESSION = "SELECT task, workspace, created_at FROM meta WHERE session_id = :session"
RUNS = (
    "SELECT r.run_id, r.task, r.workspace, r.started_at, r.began, "
    + _then("r", "status", "outcome", "finished_at", "epoch", "options")
    + ", e.boot_id, e.pid, e.start FROM runs AS r"
    + _past("r", "runs_past", "run_id")
    + " LEFT JOIN engines AS e ON e.engine_id ="
    " iif(r_p.until IS NULL, r.engine_id, r_p.engine_id)"
    " WHERE r.session_id = :session AND r.began <= :at ORDER BY r.rowid"
)
NEWEST_RUN = "SELECT max(began) FROM runs WHERE session_id = :session AND began <= :at"
AGENTS = (
    "SELECT a.*, s.*, "
    + _then("a", "provider", "model", "state", "incarnation", "waiting_on", "resume_token")
    + ", "
    + _then("a", "result", "ended_at", "notes")
    + ", "
    + _then("s", "prompt", "reasoning_effort", "labels")
    + " FROM agents AS a JOIN agent_specs AS s USING (agent_id)"
    + _past("a", "agents_past", "agent_id")
    + _past("s", "agent_specs_past", "agent_id")
    + " WHERE a.session_id = :session AND a.began <= :at ORDER BY a.rowid"
)
# Of what a fork shares only turns count that were over.
_OF_SESSION = " FROM lives AS a JOIN turns AS t ON t.agent_id = a.of_id"
_BEGUN = (
    " WHERE a.session_id = :session AND t.began <= :at"
    " AND (a.of_id = a.agent_id OR t.ended <= a.until)"
)
_OVER = " AND t.ended <= min(:at, a.until)"
# By agent: how many turns it has begun, in all and in the newest run.
TURNS = (
    f"SELECT a.agent_id, max(t.turn_no), sum(t.began >= :run){_OF_SESSION}{_BEGUN}"
    " GROUP BY a.agent_id"
)
SPENT = (
    f"SELECT a.agent_id, {SUMS}{_OF_SESSION}{_BEGUN} AND t.began >= :run{_OVER} GROUP BY a.agent_id"
)
# With max(), the other columns are those of the row that has the greatest. By agent, its newest
# turn of each type: its own end otherwise than those that only compacted its conversation.
ENDS = (
    "SELECT a.agent_id, t.turn_type, t.id, t.stop_reason, t.error, max(t.ended)"
    f"{_OF_SESSION}{_BEGUN}{_OVER} GROUP BY a.agent_id, t.turn_type"
)
# What a turn that has been closed since had used is kept, if it told anything while it ran.
OPEN_TURNS = (
    "SELECT t.agent_id, t.id, t.turn_no, t.parent_turn_id, t.started_at, c.first_seq, "
    + _then("t", *_USED, now="iif({of}.ended IS NULL, {of}.{name}, NULL)")
    + _OF_SESSION
    + _past("t", "turns_past", "turn_id", "id")
    + " LEFT JOIN steps AS c ON c.position = t.began"
    + _BEGUN
    + " AND a.of_id = a.agent_id AND (t.ended IS NULL OR t.ended > :at) ORDER BY t.rowid"
)
SAID = "SELECT content FROM messages WHERE turn_id = ? AND role = 'assistant' ORDER BY rowid DESC"
CALLS = "SELECT * FROM tool_calls WHERE turn_id = ? AND orchestration"
EFFECTS = "SELECT * FROM effects WHERE turn_id = ? AND began <= ? ORDER BY rowid"
TOLD_OF = (
    "SELECT seq, type, ts, data, position FROM events WHERE session_id = :of"
    " AND agent_id = :agent AND seq BETWEEN :first AND :last"
    f" AND type IN ({', '.join(repr(kind) for kind in TOLD)}) ORDER BY seq"
)
# A vendor uses an id again in a later turn: what counts is the commit that holds the answer. What
# was read before a fork is no message of the fork's.
CONSUMED = """
SELECT message_id FROM (
SELECT m.message_id, m.position FROM inbox AS m
WHERE m.target = :agent AND m.ended = :answered AND m.consumed_by = :call
UNION ALL
SELECT m.message_id, m.position FROM inbox_past AS p CROSS JOIN inbox AS m USING (message_id)
WHERE p.ended = :answered AND p.consumed_by = :call AND m.target = :agent
) ORDER BY position
"""
_LETTER = (
    "m.message_id, m.type, m.source, {target}, {life}, m.correlation_id, m.payload, m.created_at"
)
_LATER = (
    "(SELECT min(until) FROM inbox_past AS x WHERE x.message_id = m.message_id AND x.until > :at)"
)
_NOW = _LETTER.format(target="m.target", life="m.incarnation")
_THEN = _LETTER.format(target="m.target", life="p.incarnation")
# Of messages that were not handed on later the index tells which are unread.
UNREAD = f"""
SELECT {_NOW}, m.position FROM agents AS a JOIN inbox AS m ON m.target = a.agent_id
WHERE a.session_id = :session AND m.ended IS NULL AND m.began <= :at AND {_LATER} IS NULL
UNION ALL
SELECT {_NOW}, m.position FROM agents AS a JOIN inbox AS m ON m.target = a.agent_id
WHERE a.session_id = :session AND m.ended > :at AND m.began <= :at AND {_LATER} IS NULL
UNION ALL
SELECT {_THEN}, m.position FROM inbox_past AS p JOIN inbox AS m USING (message_id)
WHERE p.until > :at AND p.until = {_LATER} AND m.session_id = :session AND m.began <= :at
AND (p.ended IS NULL OR p.ended > :at)
ORDER BY 9
"""
# Of some correlation ids, questions and answers; the last column: when it was consumed. A fork has
# the questions that are open, and shares the answers to all others.
_ASKED = _LETTER.format(target="a.agent_id", life="coalesce(m_p.incarnation, m.incarnation)")
ABOUT = (
    f"SELECT {_ASKED}, iif(m_p.until IS NULL, m.ended, m_p.ended)"
    " FROM lives AS a JOIN inbox AS m ON m.target = a.of_id"
    + _past("m", "inbox_past", "message_id")
    + " WHERE a.session_id = :session AND m.began <= min(:at, a.until)"
    " AND (m.type = 'answer' OR m.type = 'question' AND a.of_id = a.agent_id)"
    " AND m.correlation_id IN (SELECT value FROM json_each(:about)) ORDER BY m.position"
)
ORIGINS = (
    "SELECT origin_id AS session_id, position, seq FROM forks WHERE session_id = :session"
    " ORDER BY seq"
)
REQUESTS = (
    "SELECT request_id, agent_id, kind, payload, opened_at FROM requests"
    " WHERE session_id = :session AND began <= :at AND (ended IS NULL OR ended > :at)"
    " ORDER BY rowid"
)
GRANTS = (
    "SELECT agent_id, data, created_at FROM grants WHERE session_id = :session AND began <= :at"
    " ORDER BY grant_id"
)
SNAPSHOTS = (
    f"SELECT {', '.join(SessionSnapshot.__struct_fields__)} FROM snapshots"
    " WHERE session_id = :session AND began <= :at ORDER BY rowid"
)
_CHANGE = ", ".join(f'c."{name}"' for name in (*CHANGE_COLUMNS, "authors", "beside", "found_at"))
CHANGES = (
    f"SELECT {_CHANGE}, "
    + _then("c", "state", "why", "decided_at")
    + " FROM file_changes AS c"
    + _past("c", "file_changes_past", "id", also="session_id")
    + " WHERE c.session_id = :session AND c.began <= :at ORDER BY c.rowid"
)
