"""Which rows of the ledger are a session's, by table: what a copy of it holds, and its removal."""

from __future__ import annotations

_OF_SESSION = "session_id = :session"
_OF_AGENT = "agent_id IN (SELECT agent_id FROM agents WHERE session_id = :session)"
_OF_TURN = f"turn_id IN (SELECT id FROM turns WHERE {_OF_AGENT})"  # noqa: S608 - names of ours

# In an order in which each row comes behind those that it refers to.
TABLES = {
    "meta": _OF_SESSION,
    "forks": _OF_SESSION,
    "aliases": _OF_SESSION,
    "engines": (
        "engine_id IN (SELECT engine_id FROM runs WHERE session_id = :session UNION"
        " SELECT p.engine_id FROM runs JOIN runs_past AS p USING (run_id)"
        " WHERE session_id = :session)"
    ),
    "runs": _OF_SESSION,
    "runs_past": "run_id IN (SELECT run_id FROM runs WHERE session_id = :session)",
    "agents": _OF_SESSION,
    "agents_past": _OF_AGENT,
    "agent_specs": _OF_AGENT,
    "agent_specs_past": _OF_AGENT,
    "turns": _OF_AGENT,
    "turns_past": _OF_TURN,
    "messages": _OF_TURN,
    "tool_calls": _OF_TURN,
    "effects": _OF_TURN,
    "compactions": _OF_TURN,
    "threads": _OF_TURN,
    "sessions": _OF_SESSION,
    "session_history": (
        "session_label IN (SELECT label FROM sessions WHERE session_id = :session)"
    ),
    "inbox": _OF_SESSION,
    "inbox_past": "message_id IN (SELECT message_id FROM inbox WHERE session_id = :session)",
    "requests": _OF_SESSION,
    "grants": _OF_SESSION,
    "snapshots": _OF_SESSION,
    "file_changes": _OF_SESSION,
    "file_changes_past": _OF_SESSION,
    "events": _OF_SESSION,
    "steps": _OF_SESSION,
}
SHARED = frozenset({"engines"})  # other sessions may refer to the same rows
