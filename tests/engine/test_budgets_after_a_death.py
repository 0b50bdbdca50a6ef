"""What a run, and each part of its tree, may use and has used, holds in the engine that goes on."""

from __future__ import annotations

import asyncio

import pytest
from prsm_testing.fake_clock import FakeClock

from tests.engine.deaths import die, go_on, run_to_death
from tests.engine.harness import Actor, failed


def budgets(**limits):
    return {"settings": {"budgets": limits}}


async def test_what_was_spawned_before_a_death_counts(opened):
    async def master(agent):
        await agent.spawn(name="a")
        await die(team)

    async def mastered(agent):
        await agent.spawn(name="b")
        refused = await agent.refused("spawn_child", prompt="work", name="c")
        assert refused == "budget_exceeded"
        await agent.collect(2)
        await agent.complete()

    async with opened(check=False, **budgets(spawns=2)) as team:
        await run_to_death(team, master=master, a=Actor.hang)
    async with opened(**budgets(spawns=2)) as again:
        ended = {"a": Actor.complete, "b": Actor.complete}
        assert (await go_on(again, master=mastered, **ended)).status == "completed"


async def test_turns_that_were_begun_before_a_death_count(opened):
    clock = FakeClock()

    async def master(agent):
        if agent.turn == 2:
            await die(team)
        raise failed("busy", retryable=True)

    async def fails(_):
        raise failed("busy", retryable=True)

    async with opened(check=False, clock=clock, **budgets(turns=3)) as team:
        await run_to_death(team, master=master)
    async with opened(clock=clock, **budgets(turns=3)) as again:
        result = await go_on(again, master=fails)
    assert (result.status, "turns" in result.error) == ("failed", True)
    turns = again.ledger.events("turn_started", "master")
    assert [event["n"] for event in turns] == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "later", "limit"),
    [
        (None, 50, 50),  # a child has its parent's limit, which is another one now
        (None, 900, 900),
        (40, 900, 40),  # its own
        (40, 20, 20),  # its own, which is more than there is now
    ],
)
async def test_a_childs_limit_moves_with_that_of_the_run_unless_it_is_its_own(
    opened, given, later, limit
):
    own = {} if given is None else {"budget": {"turns": given}}

    async def master(agent):
        await agent.spawn(name="a", **own)
        await die(team)

    async def mastered(agent):
        await agent.collect()
        await agent.complete()

    async def a(agent):
        assert again["a"].descriptor.grant.budget.turns == limit
        await agent.complete()

    async with opened(check=False, **budgets(turns=100)) as team:
        await run_to_death(team, master=master, a=Actor.hang)
    async with opened(**budgets(turns=later)) as again:
        assert (await go_on(again, master=mastered, a=a)).status == "completed"


async def test_what_a_person_answers_is_kept_although_the_budget_is_used_up_meanwhile(opened):
    """The question is asked again before its agent has a session: nothing there could end it."""

    async def master(agent):
        await agent.spawn(name="a")
        await agent.call("ask_user", question="which?", options=["red", "blue"])

    async def dies(_):
        await team.seen("question_asked")
        await die(team)

    async def spends(agent):
        await agent.use(total_tokens=1500)
        await agent.complete()

    async def mastered(agent):
        await agent.use(total_tokens=1)
        await agent.hang()

    async with opened(check=False, interactive=True, **budgets(tokens=1000)) as team:
        await run_to_death(team, master=master, a=dies)
    async with (
        opened(interactive=True, **budgets(tokens=1000)) as again,
        asyncio.TaskGroup() as all_,
    ):
        running = all_.create_task(go_on(again, master=mastered, a=spends))
        await again.seen("budget_exceeded")
        [asked] = again.engine.requests.waiting()
        red = {"choices": ["red"], "text": None}
        assert again.engine.requests.resolve(asked.request_id, "question", red)
        assert (await running).status == "failed"
    asked_for = "SELECT status FROM tool_calls WHERE tool_name = 'ask_user'"
    assert again.ledger.rows(asked_for) == [("completed",)]


@pytest.mark.requirement("F2", "U16")
@pytest.mark.parametrize("whose", ["the vendor's", "ours"])
async def test_what_a_response_has_used_is_kept_while_its_call_waits(opened, whose):
    """A vendor tells it behind the call, which may wait for hours: no step would carry it."""
    waiting = []

    async def master(agent):
        if whose == "ours":
            await agent.spawn(name="a")
            waiting.append(agent)
            await agent.collect()
        await agent.start_tool()
        await agent.use(total_tokens=70)
        await die(team)

    async def a(_):
        await team.seen("agent_state_changed", "master", to="waiting_for_child")
        await waiting[0].use(total_tokens=70)
        await die(team)

    async def mastered(agent):
        await agent.use(total_tokens=5)
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master, a=a)
    async with opened() as again:
        result = await go_on(again, master=mastered)
    assert (result.status, result.usage.total_tokens) == ("completed", 75)
