"""What a turn begins with is counted, and a rebuilt conversation fits the model's window."""

from __future__ import annotations

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.config import Settings
from prsm_core.domain.turns import ErrorKind, UsageReported
from prsm_core.domain.usage import TokenUsage
from prsm_core.engine.turns.context import (
    count_tokens,
    history_tokens,
    room_of,
    session_request,
    tool_tokens,
)
from tests.engine.harness import failed

WINDOW = 10_000
NEVER = {"compaction": "never"}


def settings(context=None, window=WINDOW):
    return {
        "defaults": {"provider": "script", "model": "small"},
        "model_registry": {"small": {"max_context": window}},
        "context": context or {},
    }


def notices(team):
    return [notice["text"] for notice in team.ledger.events("notice")]


def layers(context):
    """Return how many tokens the three layers count as."""
    fixed = count_tokens(context.system_prompt) + tool_tokens(context.tools)
    current = context.current_message
    new = 0 if current is None else count_tokens(current.content)
    return fixed + history_tokens(context.history) + new


@pytest.mark.requirement("N4")
async def test_the_budget_of_a_turn_counts_its_three_layers_before_it_begins(opened):
    async def master(agent):
        await agent.complete()

    async with opened(settings=settings()) as team:
        await team.run("do it", master=master)
        [context] = team.provider.contexts["master"]
    budget = context.token_budget
    assert budget.used == layers(context)
    assert budget.context_window == WINDOW


@pytest.mark.parametrize(("response", "kept"), [(None, WINDOW // 5), (4000, 4000)])
async def test_the_answer_keeps_as_much_of_the_window_as_it_may_have(opened, response, kept):
    alias = {"provider": "script", "model_id": "small", "max_response_tokens": response}
    given = {**settings(), "models": {"s": alias}}
    fills: list[int] = []
    async with opened(settings=given) as team:

        async def master(agent):
            room = room_of(team["master"].descriptor, Settings.of(given), WINDOW)
            assert room is not None
            fills.append(room.fill)
            await agent.complete()

        await team.run("do it", master=master)
    assert fills == [WINDOW - kept]


@pytest.mark.parametrize("told", [None, 4321])
async def test_a_later_turn_counts_what_its_vendor_told_and_else_what_was_said(opened, told):
    async def master(agent):
        if agent.turn == 1:
            await agent.spawn("work")
            await agent.say("x" * 3000)
            if told is not None:
                await agent.tell(UsageReported(TokenUsage(), context_used=told))
            return
        await agent.complete()

    async with opened(settings=settings(), gives_tokens=True) as team:
        await team.run("do it", master=master)
        first, second = team.provider.contexts["master"]
    prompt = count_tokens(second.current_message.content)
    used = second.token_budget.used
    if told is not None:
        assert used == told + prompt
    else:
        assert 0 < used - first.token_budget.used - prompt - 1000 < 300  # the call and its answer


async def test_without_a_known_window_nothing_is_left_out(opened):
    async def master(agent):
        if agent.turn == 1:
            await agent.say("x" * 100_000)
            raise failed("again", retryable=True)
        await agent.complete()

    given = {"defaults": {"provider": "script", "model": "new"}}
    async with opened(clock=FakeClock(), settings=given) as team:
        await team.run("do it", master=master)
        *_, last = team.provider.contexts["master"]
    assert last.token_budget.context_window is None


@pytest.mark.requirement("N28")
async def test_a_rebuilt_conversation_fits_the_next_models_window_and_says_what_is_missing(opened):
    async def master(agent):
        if agent.turn == 1:
            for number in range(30):
                await agent.say(f"note {number}: " + "x" * 900)
            raise failed("broken", kind=ErrorKind.MODEL_ERROR)
        await agent.complete()

    given = settings(NEVER)
    given["defaults"]["fallbacks"] = ["script/other"]
    given["model_registry"] = {"other": {"max_context": WINDOW}}
    async with opened(clock=FakeClock(), settings=given) as team:
        result = await team.run("do it", master=master)
        _, context = team.provider.contexts["master"]
    assert result.status == "completed"
    assert context.token_budget.used == layers(context) <= WINDOW * 0.8
    mark, *kept = context.history
    assert mark.content.startswith(f"[{31 - len(kept)} messages stood here")
    assert [m.content.split(":")[0] for m in kept] == [f"note {n}" for n in range(30)][-len(kept) :]
    [told] = [text for text in notices(team) if "does not fit" in text]
    assert f"{31 - len(kept)} of 31 messages are left out" in told
    assert "script/other" in told


@pytest.mark.parametrize(
    ("permissions", "must_ask"),
    [
        ({}, False),
        ({"ask": ["git push"]}, False),
        ({"deny": ["git push"]}, True),
        ({"require": "approval"}, True),
        ({"tools": {"WebFetch": "deny"}}, True),
    ],
)
async def test_a_session_is_told_that_the_policy_denies_calls(team, permissions, must_ask):
    settings = Settings.of({"permissions": permissions})
    await team.run("do it")
    record = team["master"]
    told = session_request(record, settings, "/work", "You are master.")
    assert told.must_ask is must_ask
