"""What is told while it comes: bounded, without secrets; and the plan of the model."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.turns import (
    CUT_MARK,
    RESULT_LIMIT,
    PlanEntry,
    PlanUpdated,
    TextDelta,
    ToolOutput,
    UsageReported,
)
from prsm_core.domain.usage import TokenUsage
from prsm_core.engine.journal.feed import LiveText
from prsm_core.engine.turns.vendor_calls import ENTRY_LIMIT, PLAN_LIMIT
from prsm_core.permissions import Redactor
from tests.engine.harness import SESSION

SECRET = "hunter2-hunter2-hunter2"  # noqa: S105 - what nobody may be shown
REDACTOR = Redactor([SECRET])


async def followed(team, master):
    """Run a master, followed from the beginning; return the events."""
    running = asyncio.ensure_future(team.run("do it", master=master))
    events = []
    async with aclosing(team.engine.feed.events(SESSION)) as source:
        async for event in source:
            events.append(event)
            if event.type == "run_finished":
                break
    await running
    return events


@pytest.mark.requirement("E14")
async def test_what_a_call_writes_comes_between_its_beginning_and_its_end(opened):
    async def master(agent):
        await agent.tell(ToolOutput("v1", "before it has begun"))
        await agent.start_tool("v1", command="make")
        await agent.tell(ToolOutput("v1", "one\n"), ToolOutput("v1", "hunter2-hun"))
        await agent.tell(ToolOutput("v1", "ter2-hunter2 two"))
        await agent.end_tool("v1")
        await agent.tell(ToolOutput("v1", "after its end"))
        await agent.complete()

    async with opened(redactor=REDACTOR) as team:
        events = await followed(team, master)
    own = [event for event in events if event.data.get("call") == "v1"]
    assert own[0].type == "tool_call_started"
    assert own[-1].type == "tool_call_finished"
    pieces = [event.data for event in own[1:-1]]
    assert "".join(piece["text"] for piece in pieces) == "one\n[redacted] two"
    ats = [piece["at"] for piece in pieces]
    assert ats == [len("".join(p["text"] for p in pieces[:n])) for n in range(len(pieces))]


async def test_what_a_call_writes_is_told_up_to_a_limit(team):
    async def master(agent):
        await agent.start_tool("v1", command="yes")
        for _ in range(20):
            await agent.tell(ToolOutput("v1", "y\n" * 4096))
        await agent.end_tool("v1")
        await agent.complete()

    events = await followed(team, master)
    told = "".join(e.data["text"] for e in events if e.type == "tool_output_delta")
    assert told == ("y\n" * RESULT_LIMIT)[:RESULT_LIMIT] + CUT_MARK


@given(st.integers(0, 40), st.lists(st.integers(1, 12), max_size=20), st.integers(1, 60))
def test_a_secret_is_not_told_in_part_where_a_text_is_cut(before, sizes, limit):
    told: list[str] = []
    text = LiveText(REDACTOR.stream(), lambda data: told.append(data["text"]), {}, limit)
    whole = "x " * before + SECRET + " and on"
    for size in sizes:
        text.feed(whole[:size])
        whole = whole[size:]
    text.feed(whole)
    text.end()
    assert "hunter" not in "".join(told)


async def test_news_that_only_the_engine_hears_cut_no_secret_in_two(opened):
    async def master(agent):
        await agent.tell(TextDelta("it is hunter2-hun"), UsageReported(TokenUsage(input_tokens=1)))
        await agent.tell(TextDelta("ter2-hunter2 "))
        await agent.say(f"it is {SECRET} ")
        await agent.complete()

    async with opened(redactor=REDACTOR) as team:
        events = await followed(team, master)
    told = "".join(event.data["text"] for event in events if event.type == "text_delta")
    assert told == "it is [redacted] "


async def test_a_plan_is_committed_bounded_and_only_where_it_is_another(opened):
    plan = PlanUpdated((PlanEntry("look", "completed"), PlanEntry(f"use {SECRET}")))
    long = PlanUpdated((PlanEntry("x" * (ENTRY_LIMIT + 1)),) * (PLAN_LIMIT + 3))

    async def master(agent):
        await agent.tell(plan, plan, long)
        await agent.complete()

    async with opened(redactor=REDACTOR) as team:
        await team.run(master=master)
    first, second = team.ledger.events("plan_updated")
    assert first["entries"] == [
        {"text": "look", "status": "completed"},
        {"text": "use [redacted]", "status": "pending"},
    ]
    assert len(second["entries"]) == PLAN_LIMIT + 1
    assert second["entries"][0]["text"] == "x" * ENTRY_LIMIT
    assert second["entries"][-1]["text"] == "… 3 more"
