"""What comes with every turn stands in the columns that are named for it.

Forms tell values apart by their places alone, and both stores share them.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from prsm_core.domain.turns import AgentError, AgentMessage, ErrorKind, StopReason
from prsm_core.domain.usage import Provenance, TokenUsage

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_testing.store_contract import Steps

    from prsm_core.domain.record import Record
    from prsm_core.domain.writes import TurnOpened
    from prsm_core.store import SqliteStore


def rows(path: Path, table: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as conn:
        conn.row_factory = sqlite3.Row
        return [dict(row) for row in conn.execute(f"SELECT * FROM {table}")]  # noqa: S608 - ours


def columns_of(told: Record, *, but: set[str]) -> dict[str, Any]:
    """Return what the columns hold that have the names of its fields."""
    return {name: value for name, value in asdict(told).items() if name not in but}


def holds(row: dict[str, Any], told: dict[str, Any]) -> None:
    assert {name: row[name] for name in told} == told


async def test_each_value_of_a_turn_that_opens_is_in_its_column(
    store: SqliteStore, path: Path, team: Steps
):
    turn = team.turn(
        "w1",
        model="a model",
        provider="a provider",
        role="a role",
        toolset_name="a toolset",
        tools_available=("a tool",),
        permissions_granted=("a permission",),
        workspace_path="/a/workspace",
        started_at_ms=123,
        source_event_id="a source",
        turn_type="compaction",
    )
    await store.commit(team.step("w1", turn))
    (row,) = rows(path, "turns")
    renamed = {"turn_id", "number", "started_at_ms", "session_label", "consumed", "at"}
    told = columns_of(turn, but={*renamed, "tools_available", "permissions_granted"})
    told |= {"id": turn.turn_id, "turn_no": 1, "started_at": 123, "status": "running"}
    told |= {"agent_id": team.agent("w1"), "closed_by": None, "completed_at": None, "ended": None}
    holds(row, told)
    assert json.loads(row["tools_available"]) == ["a tool"]
    assert json.loads(row["permissions_granted"]) == ["a permission"]


USAGE = TokenUsage(
    input_tokens=1,
    output_tokens=2,
    cached_input_tokens=3,
    cache_write_tokens=4,
    reasoning_tokens=5,
    total_tokens=6,
)
SAID = AgentMessage(
    id="a message",
    role="assistant",
    content="a content",
    sequence=7,
    created_at=1_000_050,
    thinking="a thought",
)
ASKED = replace(SAID, id="a prompt", role="user", content="a question", created_at=1_000_001)


async def close_second(store: SqliteStore, team: Steps, **told: Any) -> tuple[TurnOpened, str]:
    """Have an agent's second turn over; return it, and the step that closed it."""
    first = team.turn("w1")
    await store.commit(team.step("w1", first))
    await store.commit(team.close_turn(first, "w1"))
    turn = team.turn("w1", 2, parent_turn_id=first.turn_id)
    await store.commit(team.step("w1", turn))
    result = team.result(messages=(ASKED, SAID), **told)
    step = team.close_turn(turn, "w1", result=result, completed_at_ms=1_000_900)
    await store.commit(step)
    return turn, step.step_id


async def test_each_value_of_a_turn_that_closes_is_in_its_column(
    store: SqliteStore, path: Path, team: Steps
):
    turn, closed_by = await close_second(
        store,
        team,
        usage=USAGE,
        stop_reason=StopReason.ERROR,
        duration_ms=77,
        cost_usd=0.5,
        error=AgentError(kind=ErrorKind.MODEL_ERROR, message="an error"),
        permissions_used=("a permission",),
        usage_provenance=Provenance.REPORTED,
        cost_provenance=Provenance.ESTIMATED,
    )
    parent, row = rows(path, "turns")
    assert (parent["has_children"], row["has_children"]) == (1, 0)
    told = columns_of(USAGE, but=set())
    told |= {"id": turn.turn_id, "status": "failed", "completed_at": 1_000_900}
    told |= {"response_message_id": "a message", "stop_reason": "error", "cost_usd": 0.5}
    told |= {"duration_ms": 77, "closed_by": closed_by, "tool_call_count": 0}
    told |= {"usage_provenance": "reported", "cost_provenance": "estimated"}
    holds(row, told)
    assert json.loads(row["query_message_ids"]) == ["a prompt"]
    assert json.loads(row["permissions_used"]) == ["a permission"]
    assert json.loads(row["error"])["message"] == "an error"
    assert row["ended"] > parent["ended"] > 0
    session = next(one for one in rows(path, "sessions") if one["agent_id"] == team.agent("w1"))
    head = {"label": turn.session_label, "thread_id": turn.turn_id, "updated_at": 1_000_900}
    holds(session, head)
    moved = {"session_label": turn.session_label, "thread_id": turn.turn_id}
    holds(rows(path, "session_history")[-1], {**moved, "changed_at": 1_000_900})


async def test_each_value_of_a_message_and_a_call_is_in_its_column(
    store: SqliteStore, path: Path, team: Steps
):
    call = replace(
        team.call("a call", tool_name="a tool", params={"b": 1, "a": 2}, orchestration=False),
        status="completed",
        sequence=3,
        result="a result",
        completed_at=1_000_200,
        spawned_session_label="a label",
    )
    turn, _ = await close_second(store, team, tool_calls=(call,))
    own = [one for one in rows(path, "messages") if one["turn_id"] == turn.turn_id]
    by_id = {one["id"]: one for one in own}
    for message in (ASKED, SAID):
        holds(by_id[message.id], columns_of(message, but={"images", "again"}))
    assert by_id["a message"]["context_json"] is None
    assert json.loads(by_id["a prompt"]["context_json"])["session_label"] == turn.session_label
    (kept,) = rows(path, "tool_calls")
    told = columns_of(call, but={"params"})
    holds(kept, {**told, "orchestration": 0, "message_id": "a message"})
    assert kept["params"] == '{"b":1,"a":2}'  # as it was told
    assert rows(path, "turns")[-1]["tool_call_count"] == 1
