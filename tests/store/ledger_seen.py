"""What a store tells of a session: all of it, and as the model of a ledger tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from prsm_testing.store_contract import read_events

from prsm_core.domain.notes import Notes

if TYPE_CHECKING:
    from prsm_core.domain.sessions import SessionSnapshot
    from prsm_core.interfaces.store import Store
    from tests.store.ledger_state import Call, Turn

CALL = (
    *("id", "tool", "arguments", "status", "result", "error", "sequence", "orchestration"),
    *("turn_no", "turn_status"),
)
_USED = {"usage", "error", "provenance", "context"}  # of turn_finished: other tests look at them


async def look(store: Store, session: str = "s1") -> dict[str, Any]:
    """Return everything that a store tells of a session."""
    agents = await store.agents(session)
    return {
        "state": await store.state(session),
        "agents": agents,
        "inbox": await store.inbox(session),
        "requests": await store.open_requests(session),
        "events": await read_events(store, session),
        "calls": [list(await store.calls(row.descriptor.agent_id)) for row in agents],
        "changes": await store.changes(session),
        "sessions": [replace(info, started_at=0.0) for info in await store.sessions()],
    }


def seen(looked: dict[str, Any]) -> dict[str, Any]:
    """Return what a store tells of a session as the model tells it."""
    return {
        "agents": [_seen_agent(row) for row in looked["agents"]],
        "notes": [None if now.notes == Notes() else now.notes for now in looked["state"].agents],
        "inbox": [(each.message_id, each.target, each.incarnation) for each in looked["inbox"]],
        "requests": [request.request_id for request in looked["requests"]],
        "events": [seen_event(event) for event in looked["events"]],
        "calls": [
            [
                {name: call[name] for name in CALL if name not in {"tool", "arguments"}}
                | {"tool": call["tool_name"], "arguments": call["params"]}
                for call in calls
            ]
            for calls in looked["calls"]
        ],
        "changes": {
            row.change.id: (row.change.path, row.state, row.why) for row in looked["changes"]
        },
        "session": next(
            ((info.run_id, info.status, info.last_seq, info.name) for info in looked["sessions"]),
            None,
        ),
    }


def seen_event(event: Any) -> dict[str, Any]:
    """Return an event as the model tells it."""
    names = ("type", "agent", "ts", "seq", "run", "session")
    dropped = _USED if event.type == "turn_finished" else set()
    data = {name: value for name, value in event.data.items() if name not in dropped}
    return {**{name: getattr(event, name) for name in names}, "data": data}


def _seen_agent(row: Any) -> dict[str, Any]:
    agent = row.descriptor
    return {
        "name": agent.name,
        "parent": agent.parent_id,
        "model": (agent.provider, agent.model),
        "prompt": agent.prompt,
        "labels": dict(agent.labels),
        "modes": (agent.mode.value, agent.grant.mode.value),
        "state": agent.state.value,
        "life": agent.incarnation,
        "waiting_on": row.waiting_on,
        "result": row.result,
        "thread": row.resume_token,
        "next_turn": row.next_turn,
        "head": row.head_turn_id,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "tokens": row.spent.usage.total_tokens,
        "cost": row.spent.cost_usd,
        "untold": row.spent.turns_without_cost,
        "last_tool": row.last_tool,
        "last_event_at": row.last_event_at,
    }


def told_of(snapshot: SessionSnapshot) -> dict[str, Any]:
    """Return what is told of a snapshot of files."""
    names = ("kind", "folder", "tree", "branch", "head", "description", "bytes_skipped")
    told = {name: getattr(snapshot, name) for name in names}
    return {"snapshot": snapshot.snapshot_id, "unquiet": list(snapshot.unquiet), **told}


def call_told(turn: Turn, call: Call) -> dict[str, Any]:
    told = {name: getattr(call, name) for name in CALL[:7]}
    status = {"turn_no": turn.number, "turn_status": turn.status}
    return {**told, "orchestration": call.is_ours, **status}
