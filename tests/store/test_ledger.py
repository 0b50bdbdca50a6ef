from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.turns import AgentError, AgentMessage, CompactionResult, ErrorKind, StopReason
from prsm_core.domain.usage import TokenUsage
from prsm_core.store import arguments_hash
from tests.store.dumps import ancestry, dump, query

if TYPE_CHECKING:
    from pathlib import Path

    from prsm_testing.store_contract import Steps

    from prsm_core.domain.writes import TurnOpened
    from prsm_core.store import SqliteStore

LEDGER = [
    "turns",
    "messages",
    "tool_calls",
    "compactions",
    "threads",
    "sessions",
    "session_history",
]


async def run_turns(
    store: SqliteStore, team: Steps, name: str, count: int, first: int = 1, head: str | None = None
) -> list[str]:
    """Open and close turns in a line; return their ids."""
    turns = []
    for number in range(first, first + count):
        turn = team.turn(name, number, parent_turn_id=head)
        await store.commit(team.step(name, turn))
        call = team.call("c1", orchestration=False, status="completed", completed_at=1_000_200)
        result = team.result(tool_calls=(call,))
        await store.commit(team.close_turn(turn, name, result=result))
        head = turn.turn_id
        turns.append(turn.turn_id)
    return turns


def messages() -> tuple[AgentMessage, ...]:
    said = [("system", 0), ("user", 0), ("assistant", 100), ("tool", 300), ("assistant", 400)]
    return tuple(
        AgentMessage(
            id=f"m{number}", role=role, content=role, sequence=number, created_at=1_000_000 + at
        )
        for number, (role, at) in enumerate(said)
    )


COMPACTION = CompactionResult(
    summary="so far",
    summarized_through_turn_id="t1",
    first_kept_turn_id="t2",
    turns_summarized=1,
    model="small",
    provider="script",
    tokens_before=100,
    tokens_after=20,
    summary_tokens=10,
    summarization_input_tokens=90,
    summarization_output_tokens=10,
    duration_ms=50,
    trigger="context_limit",
)


@pytest.mark.requirement("N14", "N17", "N18")
async def test_a_turn_writes_all_seven_tables(store: SqliteStore, team: Steps, path: Path):
    (parent,) = await run_turns(store, team, "w1", 1)
    before = dump(path)
    turn = team.turn("w1", 2, parent_turn_id=parent)
    await store.commit(team.step("w1", turn))
    result = team.result(messages=messages(), tool_calls=(team.call("c1"),), compaction=COMPACTION)
    await store.commit(team.close_turn(turn, "w1", result=result, completed_at_ms=1_000_900))

    after = dump(path)
    assert [name for name in LEDGER if after[name] == before[name]] == []
    assert [row[0] for row in after["messages"]] == [parent] * 2 + [turn.turn_id] * 5
    assert after["compactions"][0][:3] == (turn.turn_id, "so far", "t1")
    assert after["compactions"][0][-1] == "context_limit"
    head = query(path, "SELECT thread_id, updated_at FROM sessions WHERE label = 's1/w1'")
    assert head == [(turn.turn_id, 1_000_900)]
    history = [row[:2] for row in after["session_history"]]
    assert history == [("s1/w1", parent), ("s1/w1", turn.turn_id)]


@pytest.mark.requirement("N19")
async def test_a_turn_row_tells_the_whole_turn(store: SqliteStore, team: Steps, path: Path):
    (parent,) = await run_turns(store, team, "w1", 1)
    turn = team.turn("w1", 2, parent_turn_id=parent, turn_type="compaction")
    await store.commit(team.step("w1", turn))
    calls = (team.call("c1", started_at=1_000_050), team.call("c2", started_at=1_000_250))
    result = team.result(
        messages=messages(),
        tool_calls=calls,
        permissions_used=("Read",),
        stop_reason=StopReason.ERROR,
        error=AgentError(kind=ErrorKind.RATE_LIMIT, message="slow down", retryable=True),
        cost_usd=0.5,
    )
    await store.commit(team.close_turn(turn, "w1", result=result))

    columns = (
        "parent_turn_id, turn_type, status, tools_available, permissions_granted,"
        " permissions_used, input_tokens, reasoning_tokens, query_message_ids,"
        " response_message_id, has_children, tool_call_count, stop_reason, cost_usd"
    )
    sql = f"SELECT {columns} FROM turns WHERE id = ?"  # noqa: S608 - a constant
    (row,) = query(path, sql, turn.turn_id)
    assert row == (
        parent,
        "compaction",
        "failed",
        '["Read","Grep"]',
        '["Read"]',
        '["Read"]',
        10,
        None,
        '["m0","m1"]',
        "m4",
        0,
        2,
        "error",
        0.5,
    )
    ((error,),) = query(path, "SELECT error FROM turns WHERE id = ?", turn.turn_id)
    assert json.loads(error)["kind"] == "rate_limit"
    assert query(path, "SELECT has_children FROM turns WHERE id = ?", parent) == [(1,)]
    made = query(path, "SELECT id, message_id FROM tool_calls WHERE turn_id = ?", turn.turn_id)
    assert made == [("c1", None), ("c2", "m2")]


@pytest.mark.requirement("N14")
async def test_only_prompts_carry_where_they_were_assembled(
    store: SqliteStore, team: Steps, path: Path
):
    turn = team.turn("w1")
    await store.commit(team.step("w1", turn))
    await store.commit(team.close_turn(turn, "w1", result=team.result(messages=messages())))
    rows = query(path, "SELECT role, context_json FROM messages ORDER BY sequence")
    contexts = [None if text is None else json.loads(text) for _, text in rows]
    assert contexts[0] == {"session_label": "s1/w1", "run_id": "s1-run", "incarnation": 1}
    assert contexts[1:] == [contexts[0], None, None, None]


@pytest.mark.parametrize(
    ("stop_reason", "status"),
    [
        (StopReason.END_TURN, "completed"),
        (StopReason.MAX_TOKENS, "completed"),
        (StopReason.ABORTED, "aborted"),
        (StopReason.TIMEOUT, "failed"),
        (StopReason.ERROR, "failed"),
    ],
)
async def test_the_status_of_a_turn_follows_its_stop_reason(
    stop_reason: StopReason, status: str, store: SqliteStore, team: Steps, path: Path
):
    turn = team.turn("w1")
    await store.commit(team.step("w1", turn))
    assert query(path, "SELECT status FROM turns") == [("running",)]
    await store.commit(team.close_turn(turn, "w1", result=team.result(stop_reason=stop_reason)))
    assert query(path, "SELECT status FROM turns") == [(status,)]


@pytest.mark.requirement("N16")
async def test_ancestry_is_computed_for_every_branch(store: SqliteStore, team: Steps, path: Path):
    trunk = await run_turns(store, team, "w1", 3)
    branch = await run_turns(store, team, "w2", 2, head=trunk[1])
    assert ancestry(path, trunk[2]) == trunk
    assert ancestry(path, branch[1]) == [*trunk[:2], *branch]
    total = "SELECT total_tokens FROM thread_ancestry WHERE turn_id = ?"
    assert query(path, total, branch[1]) == [(60,)]


@pytest.mark.requirement("N16")
async def test_a_thread_totals_what_is_known(store: SqliteStore, team: Steps, path: Path):
    turns: list[TurnOpened] = []
    for number, total in enumerate((None, 7, None, 5), 1):
        parent = turns[-1].turn_id if turns else None
        turns.append(team.turn("w1", number, parent_turn_id=parent))
        await store.commit(team.step("w1", turns[-1]))
        result = team.result(usage=TokenUsage(total_tokens=total))
        await store.commit(team.close_turn(turns[-1], "w1", result=result))
    assert query(path, "SELECT total_tokens FROM threads ORDER BY depth") == [
        (None,),
        (7,),
        (7,),
        (12,),
    ]


@pytest.mark.requirement("N16")
async def test_a_child_turn_may_stand_under_an_open_turn(
    store: SqliteStore, team: Steps, path: Path
):
    parent = team.turn("master")
    await store.commit(team.step("master", parent))
    child = team.turn("w1", parent_turn_id=parent.turn_id)
    await store.commit(team.step("w1", child))
    await store.commit(team.close_turn(child, "w1"))
    await store.commit(team.close_turn(parent, "master"))
    assert ancestry(path, child.turn_id) == [parent.turn_id, child.turn_id]


@pytest.mark.requirement("N16")
async def test_jump_pointers_reach_every_ancestor_in_few_hops(
    store: SqliteStore, team: Steps, path: Path
):
    turns = await run_turns(store, team, "w1", 100)
    rows = query(path, "SELECT turn_id, parent_turn_id, skip_turn_id, skip_depth FROM threads")
    places = {turn: rest for turn, *rest in rows}
    longest = 0
    for wanted in range(100):
        at, depth, hops = turns[-1], 99, 0
        while depth > wanted:
            parent, skip, skip_depth = places[at]
            at, depth = (skip, skip_depth) if skip_depth >= wanted else (parent, depth - 1)
            hops += 1
        assert at == turns[wanted]
        longest = max(longest, hops)
    assert longest <= 14  # 2 log2(100)


@pytest.mark.requirement("N16")
async def test_a_turn_costs_the_same_bytes_at_any_depth(
    store: SqliteStore, team: Steps, path: Path
):
    turns = await run_turns(store, team, "w1", 200)

    def text_bytes(turn_id: str) -> int:
        key = dict.fromkeys(("messages", "tool_calls", "threads", "compactions"), "turn_id")
        key |= {"turns": "id", "session_history": "thread_id"}
        rows = [
            row
            for table, column in key.items()
            for row in query(path, f"SELECT * FROM {table} WHERE {column} = ?", turn_id)  # noqa: S608 - constants
        ]
        return sum(len(value) for row in rows for value in row if isinstance(value, str))

    assert text_bytes(turns[2]) == text_bytes(turns[199])


async def test_a_subagent_has_its_own_session_linked_both_ways(
    store: SqliteStore, team: Steps, path: Path
):
    turn = team.turn("master")
    await store.commit(team.step("master", turn))
    call = team.call("c1", tool_name="spawn_child", spawned_session_label="s1/w1")
    await store.commit(team.close_turn(turn, "master", result=team.result(tool_calls=(call,))))
    columns = "SELECT label, is_subagent, parent_session_label FROM sessions ORDER BY label"
    assert query(path, columns) == [
        ("s1/master", 0, None),
        ("s1/w1", 1, "s1/master"),
        ("s1/w2", 1, "s1/master"),
    ]
    (told,) = await store.calls(team.agent("master"))
    assert told["spawned_session_label"] == "s1/w1"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
)


@given(st.dictionaries(st.text("abc", max_size=3), JSON, max_size=4), st.randoms())
def test_equal_arguments_have_equal_hashes(params: dict, rng):
    items = list(params.items())
    rng.shuffle(items)
    assert arguments_hash(dict(items)) == arguments_hash(json.loads(json.dumps(params)))
    assert arguments_hash({**params, "d": 1}) != arguments_hash(params)
