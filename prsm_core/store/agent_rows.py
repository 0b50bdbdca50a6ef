"""Reading agents and their tool calls."""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any

from prsm_core.domain.agents import (
    NO_LABELS,
    AgentDescriptor,
    AgentResult,
    AgentRole,
    AgentState,
    Grant,
    PermissionMode,
)
from prsm_core.domain.budgets import Budget
from prsm_core.domain.notes import Notes
from prsm_core.domain.tools import McpServer
from prsm_core.domain.usage import Provenance, Spent, TokenUsage
from prsm_core.interfaces.store import AgentRow, TakenNames
from prsm_core.store.codec import arguments_hash, decode
from prsm_core.store.event_log import stretches

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from prsm_core.domain.notes import ModelChoice

# sum() gives NULL where no turn knows a count, which is what TokenUsage means by None. A sum is as
# certain as its least certain part: measured 1, reported 2, estimated 3; 0 where all is unknown.
# The total is summed as TokenUsage adds: of a turn that told none it is its input and output.
SUMS = """sum(t.cost_usd) AS cost_usd,
    sum(t.input_tokens) AS input_tokens, sum(t.output_tokens) AS output_tokens,
    sum(t.cached_input_tokens) AS cached_input_tokens,
    sum(t.cache_write_tokens) AS cache_write_tokens,
    sum(t.reasoning_tokens) AS reasoning_tokens,
    iif(count(t.total_tokens), sum(coalesce(t.total_tokens, t.input_tokens + t.output_tokens,
                                            t.input_tokens, t.output_tokens)), NULL)
      AS total_tokens,
    max(instr('mre', substr(t.usage_provenance, 1, 1))) AS tokens_from,
    max(instr('mre', substr(t.cost_provenance, 1, 1))) AS cost_from,
    sum(t.closed_by IS NOT NULL
        AND coalesce(t.total_tokens, t.input_tokens + t.output_tokens) IS NULL)
      AS turns_without_usage,
    sum(t.closed_by IS NOT NULL AND t.cost_provenance = 'unknown') AS turns_without_cost"""
_AGENTS = f"""
SELECT a.*, p.*, s.thread_id, u.*,
  coalesce(
    (SELECT min(f.started_at) FROM shared AS b JOIN turns AS f ON f.agent_id = b.of_id
     WHERE b.agent_id = a.agent_id AND f.ended <= b.until),
    (SELECT started_at FROM turns AS f WHERE f.agent_id = a.agent_id
     ORDER BY turn_no LIMIT 1)) AS first_turn_at,
  coalesce(
    (SELECT ts FROM events AS e WHERE e.session_id = a.session_id AND e.agent_id = a.agent_id
     ORDER BY seq DESC LIMIT 1),
    (SELECT e.ts FROM shared AS b JOIN events AS e ON e.session_id = b.origin_id
     AND e.agent_id = b.of_id AND e.seq <= b.seq WHERE b.agent_id = a.agent_id
     ORDER BY e.seq DESC LIMIT 1)) AS last_event_at,
  coalesce(
    (SELECT json_extract(data, '$.tool') FROM events AS e WHERE e.session_id = a.session_id
     AND e.agent_id = a.agent_id AND e.type = 'tool_call_started' ORDER BY seq DESC LIMIT 1),
    (SELECT json_extract(e.data, '$.tool') FROM shared AS b JOIN events AS e
     ON e.session_id = b.origin_id AND e.agent_id = b.of_id AND e.seq <= b.seq
     WHERE b.agent_id = a.agent_id AND e.type = 'tool_call_started'
     ORDER BY e.seq DESC LIMIT 1)) AS last_tool
FROM agents AS a
JOIN agent_specs AS p USING (agent_id)
JOIN sessions AS s USING (agent_id)
LEFT JOIN (
  SELECT l.agent_id, {SUMS} FROM lives AS l JOIN turns AS t ON t.agent_id = l.of_id
  WHERE l.session_id = :session AND t.ended <= l.until GROUP BY l.agent_id
) AS u USING (agent_id)
WHERE a.session_id = :session ORDER BY a.rowid
"""  # noqa: S608 - names
_CERTAINTY = (Provenance.UNKNOWN, *Provenance)  # by the number that `SUMS` gives
_LAST_EVENTS = 1000  # far more than are said within the 20 ms that a fact may be kept
# What of an agent is as its columns have it, and what many agents have in common.
_PLAIN = (
    *("agent_id", "name", "prompt", "system_prompt", "depth", "incarnation", "reasoning_effort"),
    *("created_at", "continues"),
)
_SHARED = ("session_id", "run_id", "provider", "model", "cwd")
_NO_SERVERS: Mapping[str, McpServer] = {}


def read_agents(conn: sqlite3.Connection, session_id: str) -> list[AgentRow]:
    """Return the session's agents in order of creation."""
    rows = conn.execute(_AGENTS, {"session": session_id})
    # A Row looks for each name anew. Backwards, since of columns of one name the first counts.
    names = [column[0] for column in rows.description][::-1]
    return [_agent_row(dict(zip(names, row[::-1], strict=True))) for row in rows]


def read_taken(conn: sqlite3.Connection, session_id: str) -> TakenNames:
    """Return the names of the session's agents, and when its last event was.

    What an agent merely said is committed a little later than it was said, so the newest time is
    looked for among many of the last events. A fork without an event of its own has those it
    shares.
    """
    names = conn.execute("SELECT name FROM agents WHERE session_id = ?", (session_id,))
    last = (
        conn.execute(
            "SELECT max(ts) FROM (SELECT ts FROM events WHERE session_id = ? AND seq <= ?"
            " ORDER BY seq DESC LIMIT ?)",
            (part.session_id, part.last, _LAST_EVENTS),
        ).fetchone()[0]
        for part in reversed(stretches(conn, session_id))
    )
    at = next((ts for ts in last if ts is not None), 0.0)
    return TakenNames(names=frozenset(name for (name,) in names), last_event_at=at)


def read_calls(conn: sqlite3.Connection, agent_id: str) -> list[Mapping[str, Any]]:
    """Return the agent's calls by turn and sequence: ledger columns, turn_no, turn_status."""
    rows = conn.execute(
        "SELECT c.*, t.turn_no, t.status AS turn_status FROM lives AS l"
        " JOIN turns AS t ON t.agent_id = l.of_id AND (l.of_id = l.agent_id OR t.ended <= l.until)"
        " JOIN tool_calls AS c ON c.turn_id = t.id WHERE l.agent_id = ?"
        " ORDER BY t.turn_no, c.sequence, c.rowid",
        (agent_id,),
    )
    return [
        {
            **dict(row),
            "params": (params := decode(row["params"])),
            "arguments_hash": arguments_hash(params),
            "orchestration": bool(row["orchestration"]),
        }
        for row in rows
    ]


def read_sums(row: Mapping[str, Any]) -> Spent:
    """Return what turns used together, from their `SUMS`."""
    return Spent(
        usage=TokenUsage(**{name: row[name] for name in TokenUsage.__struct_fields__}),
        cost_usd=None if row["cost_usd"] is None else round(row["cost_usd"], 9),
        tokens_from=_CERTAINTY[row["tokens_from"] or 0],
        cost_from=_CERTAINTY[row["cost_from"] or 0],
        turns_without_tokens=row["turns_without_usage"] or 0,
        turns_without_cost=row["turns_without_cost"] or 0,
    )


def _agent_row(row: dict[str, Any]) -> AgentRow:
    first_turn_at = row["first_turn_at"]
    names = ("waiting_on", "resume_token", "next_turn", "ended_at", "last_tool", "last_event_at")
    return AgentRow(
        **{name: row[name] for name in names},
        descriptor=read_descriptor(row),
        result=None if row["result"] is None else AgentResult.from_dict(decode(row["result"])),
        head_turn_id=row["thread_id"],
        started_at=None if first_turn_at is None else first_turn_at / 1000,
        spent=read_sums(row),
        chosen=_chosen(row["notes"]),
    )


def _chosen(notes: str | None) -> ModelChoice | None:
    """Return the model that notes say a person has chosen; those of most agents are not read."""
    if notes is None or '"chosen"' not in notes:
        return None
    return Notes.from_dict(decode(notes)).chosen


def read_descriptor(row: Mapping[str, Any]) -> AgentDescriptor:
    """Return an agent from its columns as SQLite has them."""
    grant = _known_grant(row["grant_tools"], row["grant_mode"], row["grant_limits"])
    labels = row["labels"]
    texts = {
        "tools": _known_names(row["tools"]),
        "mcp_servers": _known(row["mcp_servers"]),
        "labels": None if labels is None else decode(labels),
    }
    return _descriptor({**row, **texts}, grant)


def build_descriptor(row: Mapping[str, Any]) -> AgentDescriptor:
    """Return an agent from its columns, those of JSON decoded."""
    return _descriptor(row, _grant(row["grant_tools"], row["grant_mode"], row["grant_limits"]))


def _descriptor(row: Mapping[str, Any], grant: Grant) -> AgentDescriptor:
    """Return an agent; of what many agents have in common there is one for all."""
    plain: dict[str, Any] = {name: row[name] for name in _PLAIN}
    shared: dict[str, Any] = {name: intern(row[name]) for name in _SHARED}
    parent = row["parent_id"]
    return AgentDescriptor(
        **plain,
        **shared,
        role=AgentRole(row["role"]),
        tools=frozenset(row["tools"]),
        grant=grant,
        mode=PermissionMode(row["mode"]),
        parent_id=None if parent is None else intern(parent),
        state=AgentState(row["state"]),
        mcp_servers=_mcp_servers(row["mcp_servers"]),
        labels=row["labels"] or NO_LABELS,
    )


def _grant(tools: Iterable[str], mode: str, limits: Mapping[str, Any] | None) -> Grant:
    limits = limits or {}
    models, region = limits.get("models"), limits.get("region")
    return Grant(
        tools=frozenset(tools),
        mode=PermissionMode(mode),
        models=None if models is None else frozenset(models),
        depth=limits.get("depth"),
        budget=Budget(**limits.get("budget", {})),
        model=limits.get("model"),
        region=None if region is None else tuple(region),
    )


# Nobody changes these, and most agents of a run have the same few.


_known = lru_cache(maxsize=256)(decode)


@lru_cache(maxsize=256)
def _known_names(text: str) -> frozenset[str]:
    return frozenset(decode(text))


@lru_cache(maxsize=256)
def _known_grant(tools: str, mode: str, limits: str | None) -> Grant:
    return _grant(_known_names(tools), mode, None if limits is None else decode(limits))


def _mcp_servers(servers: Mapping[str, Mapping[str, Any]]) -> Mapping[str, McpServer]:
    if not servers:
        return _NO_SERVERS
    return {
        name: McpServer(**{**server, "args": tuple(server["args"])})
        for name, server in servers.items()
    }
