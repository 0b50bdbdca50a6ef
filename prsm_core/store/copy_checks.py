"""What the rows of a copy must be beyond the types of their columns.

Whoever shows a session, or goes on with it, takes what the ledger has as it is. A copy may be
anybody's, so it is looked at once, when it is taken in.
"""

from __future__ import annotations

import math
import sqlite3
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import AgentState
from prsm_core.domain.events import Event
from prsm_core.store.agent_rows import read_agents
from prsm_core.store.picture import Pictures
from prsm_core.store.state import read_state
from prsm_core.store.told_values import LAST_SECOND, find_odd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Rows = Mapping[str, Sequence[Mapping[str, Any]]]

_OWN = (  # tables whose rows all name their session
    *("meta", "runs", "agents", "sessions", "inbox", "requests", "grants", "snapshots"),
    *("file_changes", "file_changes_past", "steps"),
)
_MILLISECONDS = frozenset({"turns", "messages", "tool_calls", "sessions", "session_history"})
_OBJECTS = frozenset(
    {
        *(("runs", "outcome"), ("runs", "options"), ("runs_past", "outcome")),
        *(("runs_past", "options"), ("requests", "payload"), ("inbox", "payload")),
        *(("events", "data"), ("tool_calls", "params")),
    }
)  # columns of JSON
# What is read of events as it is, by type: texts that each has had since there are any.
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "run_started": ("task",),
    "run_finished": ("status",),
    "agent_spawned": ("name", "provider", "model", "prompt"),
    "agent_state_changed": ("to",),
    "agent_model_changed": ("provider", "model"),
    "turn_started": ("turn",),
    "turn_finished": ("turn",),
    "message_completed": ("role", "text"),
    "tool_call_started": ("call", "tool"),
    "tool_call_finished": ("call", "status"),
    "receives_undone": ("turn",),
    "permission_requested": ("request",),
    "question_asked": ("request",),
    "permission_resolved": ("request",),
    "question_answered": ("request",),
}
_ASKED = {"permission": "permission_requested", "question": "question_asked"}
_STATUSES = frozenset({"running", "completed", "failed", "killed", "interrupted"})  # of a run


def check_copy(conn: sqlite3.Connection, session: str, copy: Rows) -> None:
    """Raise ValueError unless the rows are all of one session, can be read and can be shown."""
    for table, rows in copy.items():
        for row in rows:
            _check_values(table, row, len(copy["agents"]))
    for table in _OWN:
        if any(row["session_id"] != session for row in copy[table]):
            raise ValueError(f"{table} has rows of another session")
    if len(copy["meta"]) != 1 or not copy["runs"]:
        raise ValueError("it is not one session with a run")
    for seq, row in enumerate(copy["events"], 1):
        if row["session_id"] != session or row["seq"] != seq:
            raise ValueError(f"its event {seq} is missing")
        Event(type=row["type"], session=session, run=row["run_id"], ts=row["ts"], data=row["data"])
        check_told(row["type"], row["data"])
    _check_messages(copy["events"])
    for row in copy["requests"]:
        check_told(_ASKED[row["kind"]], {"request": row["request_id"], **row["payload"]})
    if len(read_agents(conn, session)) != len(copy["agents"]):
        raise ValueError("an agent lacks a part of it")
    _read_back(conn, session)


def _read_back(conn: sqlite3.Connection, session: str) -> None:
    """Read a session as those do who show it, or go on with it; raises what they would."""
    before, conn.row_factory = conn.row_factory, sqlite3.Row
    try:
        state = read_state(conn, session, None)[0]
        Pictures().read(conn, session)
    finally:
        conn.row_factory = before
    for agent in (now.agent for now in state.agents):
        if not all(isinstance(name, str) for name in agent.tools | agent.grant.tools):
            raise ValueError(f"a tool of {agent.name} has no name")
    for result in (now.result for now in state.agents):
        if result is not None and not isinstance(result.evidence, str):
            raise ValueError(f"{result.evidence!r} is no evidence")


def _check_messages(events: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError for two messages of one id: a turn that tells both could not be written."""
    seen: set[tuple[str | None, str | None]] = set()
    for data in (event["data"] for event in events if event["type"] == "message_completed"):
        key = data.get("turn"), data.get("id")
        # Those of a transcript that was imported have no id.
        if None not in key and key in seen:
            raise ValueError(f"message {key[1]} comes twice in turn {key[0]}")
        seen.add(key)


def _check_values(table: str, row: Mapping[str, Any], agents: int) -> None:
    """Raise ValueError for a value that its column could hold, and nobody could show."""
    for name, value in row.items():
        fits = True
        if (table, name) in _OBJECTS:
            fits = value is None or isinstance(value, dict)
        elif name == "ts" or name.endswith("_at"):
            unit = 1000 if table in _MILLISECONDS else 1
            fits = value is None or 0 <= value < LAST_SECOND * unit
        elif name == "status" and table in {"runs", "runs_past"}:
            fits = value in _STATUSES
        elif name == "depth" and table == "agents":
            fits = 0 <= value < agents
        elif isinstance(value, float):
            fits = math.isfinite(value)
        if not fits:
            raise ValueError(f"{value!r} is no {name} of {table}")


def check_told(kind: str, data: Mapping[str, Any]) -> None:
    """Raise ValueError for an event that whoever reads the log could not take."""
    odd = find_odd(kind, data)
    if odd is not None:
        raise ValueError(f"an event {kind}: {odd}")
    needed = (*_TEXTS.get(kind, ()), *(("n",) if kind == "turn_started" else ()))
    lacking = [name for name in needed if data.get(name) is None]
    if kind == "run_finished" and str(data.get("status")) not in _STATUSES:
        lacking.append("status")
    if lacking:
        raise ValueError(f"an event {kind} tells no {lacking[0]}")
    if kind == "agent_state_changed":
        AgentState(data["to"])
