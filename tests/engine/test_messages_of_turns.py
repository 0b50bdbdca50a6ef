"""What a turn has said stands in its messages, and what its tools answered with their calls."""

from __future__ import annotations

import pytest
from prsm_testing.fake_clock import FakeClock


@pytest.mark.requirement("N8", "N9")
async def test_messages_and_results_of_a_turn_are_in_the_ledger_and_linked_by_the_call(opened):
    async def master(agent):
        await agent.say("I look first.", "where is it?")
        await agent.start_tool("v1", "Read", path="a.txt")
        await agent.end_tool("v1", result="line one")
        await agent.say("Now I know.")
        await agent.complete("done")

    async with opened() as team:
        await team.run("do it", master=master)
        said = team.ledger.rows(
            "SELECT role, content, thinking, sequence, created_at > 0 FROM messages"
            " ORDER BY sequence"
        )
        calls = team.ledger.rows(
            "SELECT c.id, c.result, c.status, m.content FROM tool_calls AS c"
            " JOIN messages AS m ON m.turn_id = c.turn_id AND m.id = c.message_id"
            " WHERE c.tool_name = 'Read'"
        )
    assert [tuple(row) for row in said] == [
        ("user", "do it", None, 1, 1),
        ("assistant", "I look first.", "where is it?", 2, 1),
        ("assistant", "Now I know.", None, 3, 1),
    ]
    assert [tuple(row) for row in calls] == [("v1", "line one", "completed", "I look first.")]


@pytest.mark.requirement("N8")
async def test_a_call_is_of_the_message_before_it_also_within_one_millisecond(opened):
    async def master(agent):
        await agent.say("first")
        await agent.start_tool("v1", "Read", path="a.txt")
        await agent.end_tool("v1")
        await agent.say("second")
        await agent.call("get_budget")
        await agent.say("third")
        await agent.complete("done")

    async with opened(clock=FakeClock()) as team:
        await team.run("do it", master=master)
        calls = team.ledger.rows(
            "SELECT c.tool_name, m.content, m.created_at - t.started_at FROM tool_calls AS c"
            " JOIN turns AS t ON t.id = c.turn_id"
            " JOIN messages AS m ON m.turn_id = c.turn_id AND m.id = c.message_id"
            " ORDER BY c.sequence"
        )
    assert [tuple(row)[:2] for row in calls] == [
        ("Read", "first"),
        ("get_budget", "second"),
        ("task_complete", "third"),
    ]
    assert calls[-1][2] < 10  # the clock stands still but for what keeps their order
