"""A budget that is used up ends what runs, at the model's next step: one response may be over.

Each `respond` of a scripted agent is one response of its model; how many there were after the
budget was used up is what counts.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from prsm_core.domain.permissions import PermissionRequest
from prsm_core.engine.turns.limits import STUCK_SECONDS

pytestmark = pytest.mark.requirement("U14")


def budget(**limits):
    """Return what opens a team whose runs have these limits."""
    return {"settings": {"budgets": limits}}


async def work_on(agent, responses, tokens):
    """Go on for ever by orchestration calls that are answered at once."""
    while True:
        responses[agent.name] += 1
        await agent.say(f"response {responses[agent.name]}")
        await agent.use(total_tokens=tokens)
        await agent.call("report_progress", status="still at it")


async def lead_on(agent, responses, tokens):
    """As `work_on`, by calls that a master has."""
    while True:
        responses[agent.name] += 1
        await agent.say(f"response {responses[agent.name]}")
        await agent.use(total_tokens=tokens)
        await agent.call("get_budget")


async def test_a_turn_that_would_go_on_for_ever_ends_at_the_models_next_step(opened):
    responses: Counter[str] = Counter()

    async def master(agent):
        await lead_on(agent, responses, 400)

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master)
    assert responses["master"] == 3, "1,200 tokens: the third one passed the limit"
    assert (result.status, result.exit_code) == ("failed", 1)
    assert result.error.startswith("the budget of the run is used up: 1,200 tokens of 1,000 tokens")
    assert result.summary == "response 1\nresponse 2\nresponse 3"
    assert team["master"].result.error_kind == "budget_exceeded"
    [turn] = team.ledger.events("turn_finished")
    assert (turn["stop_reason"], turn["usage"]["total_tokens"]) == ("aborted", 1200)
    [exceeded] = team.ledger.events("budget_exceeded")
    assert (exceeded["used"], exceeded["limit"], exceeded["scope"]) == (1200, 1000, "run")


async def test_dollars_end_a_turn_as_tokens_do(opened):
    responses: Counter[str] = Counter()

    async def master(agent):
        while True:
            responses["master"] += 1
            await agent.use(cost_usd=0.4, total_tokens=1)
            await agent.call("get_budget")

    async with opened(**budget(usd=1.0)) as team:
        result = await team.run(master=master)
    assert responses["master"] == 3
    assert "$1.2 of $1 used" in result.error


async def test_the_warning_comes_while_the_turn_runs(opened):
    async def master(agent):
        await agent.use(total_tokens=850)
        warned = await team.seen("budget_warned")
        assert (warned.data["used"], warned.data["limit"]) == (850, 1000)
        assert team.ledger.events("turn_finished") == []
        await agent.complete()

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master)
    assert result.status == "completed", result


async def test_a_provider_that_tells_no_steps_is_ended_by_its_next_usage(opened):
    told = []

    async def master(agent):
        while True:
            await agent.use(total_tokens=600)
            told.append(600)

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master)
    assert result.status == "failed"
    assert len(told) <= 3, "the second one passed the limit, and one may be over"


async def test_a_turn_ends_although_its_calls_were_answered_before_the_step_ended(opened):
    responses: Counter[str] = Counter()

    async def master(agent):
        while True:
            responses["master"] += 1
            await agent.use(total_tokens=600)
            await agent.outcome("get_budget", {}, step=False)
            await agent.step_ended()

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master)
    assert result.status == "failed"
    assert responses["master"] <= 3


async def test_usage_that_is_told_after_the_step_ends_the_turn_too(opened):
    responses: Counter[str] = Counter()

    async def master(agent):
        while True:
            responses["master"] += 1
            await agent.start_tool(f"v{responses['master']}", command="ls")
            await agent.step_ended()
            await agent.use(total_tokens=600)
            await agent.end_tool(f"v{responses['master']}")

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master)
    assert result.status == "failed"
    assert responses["master"] <= 3


async def test_a_last_response_that_passes_the_limit_is_a_result(opened):
    async def master(agent):
        await agent.use(total_tokens=1500)
        await agent.say("done, and well")
        await agent.step_ended()

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master)
    assert (result.status, result.summary) == ("completed", "done, and well")
    assert len(team.ledger.events("budget_exceeded")) == 1


async def test_a_task_that_is_completed_in_the_response_that_passes_the_limit_is_done(opened):
    async def master(agent):
        await agent.use(total_tokens=1500)
        await agent.complete("all of it")

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master)
    assert (result.status, result.summary) == ("completed", "all of it")


async def test_a_turn_that_seems_to_be_through_and_does_not_end_is_ended(opened):
    async def master(agent):
        await agent.use(total_tokens=1500)
        await agent.say("I think about it")
        await agent.step_ended()
        await agent.hang()

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master)
    assert (result.status, result.summary) == ("failed", "I think about it")
    assert team["master"].result.error_kind == "budget_exceeded"


async def test_siblings_end_at_their_next_step_and_a_waiting_parent_at_once(opened):
    responses: Counter[str] = Counter()
    all_there, used_up = asyncio.Event(), asyncio.Event()

    async def master(agent):
        responses["master"] += 1
        await agent.say("I have asked three")
        for name in ("spender", "busy", "runner"):
            await agent.spawn(name=name)
        all_there.set()
        await agent.collect(3)
        responses["master"] += 1

    async def spender(agent):
        await all_there.wait()
        await work_on(agent, responses, 4000)

    async def watch():
        await team.seen("budget_exceeded")
        used_up.set()

    async def busy(agent):
        await agent.begin_to_say("half of what")
        await used_up.wait()
        await agent.use(total_tokens=4000)  # the response that ran
        await agent.call("report_progress", status="more")
        responses["busy"] += 1

    async def runner(agent):
        await agent.start_tool("v", command="make")
        await agent.step_ended()
        await used_up.wait()
        await agent.end_tool("v")
        for _ in range(2):
            responses["runner"] += 1
            await agent.use(total_tokens=4000)
            await agent.step_ended()
            await team.settled()  # no model is asked sooner than an interrupt takes

    async with opened(**budget(tokens=10_000)) as team:
        watching = asyncio.ensure_future(watch())
        result = await team.run(master=master, spender=spender, busy=busy, runner=runner)
        await watching
    assert (result.status, result.exit_code) == ("failed", 1)
    assert result.summary == "I have asked three"
    assert [responses[name] for name in ("master", "spender", "busy")] == [1, 3, 0]
    assert responses["runner"] <= 1, "its command was not cut off, and one response may be over"
    assert {one.result.error_kind for one in team.manager.roster.records()} == {"budget_exceeded"}
    assert team["busy"].result.summary == "half of what"


async def test_an_agent_with_a_smaller_budget_ends_alone(opened):
    responses: Counter[str] = Counter()
    results = []

    async def master(agent):
        await agent.spawn(name="small", budget={"tokens": 500})
        await agent.spawn(name="free")
        results.extend(await agent.collect(2))
        await agent.complete("half of it is there")

    async def small(agent):
        await agent.spawn(name="grandchild")
        await agent.collect()

    async def grandchild(agent):
        await work_on(agent, responses, 300)

    async def free(agent):
        await team.seen("budget_exceeded")
        await agent.use(total_tokens=300)
        await agent.call("report_progress", status="on my way")
        await agent.use(total_tokens=300)
        await agent.complete("free is done")

    async with opened(**budget(tokens=100_000)) as team:
        result = await team.run(master=master, small=small, grandchild=grandchild, free=free)
    assert (result.status, result.summary) == ("completed", "half of it is there")
    assert responses["grandchild"] == 2
    kinds = {name: team[name].result.error_kind for name in ("small", "grandchild", "free")}
    assert kinds == {"small": "budget_exceeded", "grandchild": "budget_exceeded", "free": None}
    assert sorted(message["success"] for message in results) == [False, True]


async def test_a_provider_that_does_not_obey_is_cut_off_and_its_output_kept(opened):
    async def master(agent):
        await agent.say("what I have")
        await agent.use(total_tokens=1500)
        await agent.start_tool("v", command="sleep 99")
        await agent.hang()

    async with opened(**budget(tokens=1000)) as team:
        team.provider.obeys = False
        result = await team.run(master=master)
        assert team.engine.clock.now() >= STUCK_SECONDS
    assert (result.status, result.summary) == ("failed", "what I have")
    assert team["master"].result.error_kind == "budget_exceeded"


async def test_a_run_that_spent_all_exits_with_one_although_a_person_was_missing(opened):
    async def master(agent):
        request = PermissionRequest(
            agent_id=agent.id, tool="Bash", arguments={}, cwd="/", command="make"
        )
        await agent.host.authorize(request)
        await lead_on(agent, Counter(), 600)

    async with opened(**budget(tokens=1000)) as team:
        result = await team.run(master=master)
    assert (result.status, result.exit_code) == ("failed", 1)
    assert "refused" in [problem.kind for problem in result.problems]


async def test_turns_may_be_let_finish(opened):
    responses: Counter[str] = Counter()

    async def master(agent):
        for _ in range(5):
            responses["master"] += 1
            await agent.use(total_tokens=600)
            await agent.call("get_budget")
        assert await agent.refused("spawn_child", prompt="one more") == "budget_exceeded"
        await agent.complete("all five")

    async with opened(**budget(tokens=1000, let_turns_finish=True)) as team:
        result = await team.run(master=master)
    assert (result.status, result.summary, responses["master"]) == ("completed", "all five", 5)


async def test_every_run_begins_with_all_of_its_budget(opened):
    async def master(agent):
        await lead_on(agent, Counter(), 600)

    async with opened(**budget(tokens=1000)) as team:
        first = await team.run(master=master)
        second = await team.engine.run_continuation("more", team["master"].agent_id)
    assert (first.status, second.status) == ("failed", "failed")
    assert [run["usage"]["total_tokens"] for run in team.ledger.events("run_finished")] == [
        1200,
        1200,
    ]
