"""A provider that does not answer: told soon, once, and with how long it is waited for."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from prsm_core.domain.turns import Notice, ThinkingDelta
from prsm_core.engine.turns.limits import FIRST_ANSWER_SECONDS, LATER_SECONDS
from tests.engine.test_clocks import POLL, pause

IDLE = 300.0
ENGINE = {"engine": {"idle_timeout_seconds": IDLE}}


def told(team):
    """Return what was told of silences: when, in seconds of the run, and what."""
    rows = team.ledger.rows("SELECT ts, type, data FROM events ORDER BY seq")
    begun = next(ts for ts, kind, _ in rows if kind == "turn_started")
    notices = [
        (ts - begun, json.loads(data)["text"]) for ts, kind, data in rows if kind == "notice"
    ]
    return [(after, text) for after, text in notices if "it is waited for" in text]


async def test_a_turn_without_an_answer_is_told_within_seconds_and_with_its_end(opened, fast_clock):
    async def master(agent):
        await agent.hang()

    async with opened(clock=fast_clock, **ENGINE) as team:
        result = await team.run("do it", master=master)
        assert result.error == "the provider was silent for too long"
        ended = fast_clock.now()
    [(after, text)] = told(team)
    assert FIRST_ANSWER_SECONDS <= after <= FIRST_ANSWER_SECONDS + POLL
    assert text.startswith("script/default has not answered yet, after ")
    [left] = re.findall(r"waited for (\d+) s more at most", text)
    assert ended - POLL <= after + float(left) <= ended, "the turn ends when it was said to"
    assert team.ledger.events("notice")[0]["level"] == "warning"


@pytest.mark.parametrize("level", ["info", "warning", "error"])
async def test_a_vendors_notice_is_no_answer_but_a_warning_has_just_told(opened, fast_clock, level):
    async def master(agent):
        await pause(agent, 8)
        await agent.tell(Notice(level, "tried again"))
        await pause(agent, 8)
        await agent.complete()

    async with opened(clock=fast_clock, **ENGINE) as team:
        await team.run("do it", master=master)
    assert len(told(team)) == (level == "info")


@pytest.mark.parametrize("first", ["word", "thought", "call", "vendors call"])
async def test_who_has_answered_may_think_longer_before_it_is_told(opened, fast_clock, first):
    async def master(agent):
        match first:
            case "word":
                await agent.begin_to_say("well")
            case "thought":
                await agent.tell(ThinkingDelta("hm"))
            case "call":
                await agent.call("get_budget")
            case _:
                await agent.start_tool()
                await agent.end_tool()
        await pause(agent, LATER_SECONDS - 1)
        await agent.begin_to_say("and")
        await pause(agent, LATER_SECONDS + POLL)
        await agent.begin_to_say("so")
        await pause(agent, LATER_SECONDS * 3)
        await agent.complete()

    async with opened(clock=fast_clock, **ENGINE) as team:
        await team.run("do it", master=master)
    lines = told(team)
    assert len(lines) == 2, "each silence is told once"
    assert all("script/default has said nothing for 3" in text for _, text in lines)


async def test_nobody_is_silent_while_a_tool_runs_or_others_are_waited_for(opened, fast_clock):
    async def master(agent):
        await agent.start_tool()
        await pause(agent, 100)
        await agent.end_tool()
        await agent.spawn(name="a")
        await agent.collect()
        await agent.complete()

    async def a(agent):
        await agent.start_tool()
        await pause(agent, 200)
        await agent.end_tool()
        await agent.complete()

    async with opened(clock=fast_clock, **ENGINE) as team:
        assert (await team.run("do it", master=master, a=a)).status == "completed"
    assert told(team) == []


async def test_each_agent_and_each_turn_is_told_for_itself(opened, fast_clock):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.complete()

    async def a(agent):
        await pause(agent, FIRST_ANSWER_SECONDS + POLL)
        if agent.turn > 1:
            await agent.complete()

    async with opened(clock=fast_clock, **ENGINE) as team:
        await asyncio.wait_for(team.run("do it", master=master, a=a), 20)
    assert len(told(team)) >= 1
    silent = [e["agent"] for e in team.ledger.events("notice") if "answered yet" in e["text"]]
    assert set(silent) == {"a"}
