"""Budgets on the real engine: what may launch, what is told, and what turns may go on to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from prsm_core.domain.agents import SpawnRequest
from prsm_core.domain.budgets import Budget
from prsm_core.domain.turns import StopReason, UsageReported
from prsm_core.domain.usage import Provenance, TokenUsage
from prsm_core.errors import AgentSpawnError, BudgetExceededError, StoreError
from tests.engine.harness import SESSION

WHY = "the budget of the run is used up"


def budget(**limits):
    """Return what opens a team whose runs have these limits."""
    return {"settings": {"budgets": limits}}


@pytest.mark.requirement("U14")
async def test_a_run_launches_nothing_more_when_its_tokens_are_used_up(opened):
    seen: dict[str, Any] = {}

    async def master(agent):
        if agent.turn == 1:
            await agent.spawn(name="a")
            await agent.use(total_tokens=850)
            seen["warned"] = await team.seen("budget_warned")
            await agent.use(total_tokens=200)
            await team.seen("agent_state_changed", "a", to="completed")  # it reports until then
            before = team.ledger.written()
            outcome = await agent.outcome("spawn_child", {"prompt": "one more", "name": "b"})
            seen["error"] = outcome.data["error"]
            assert team.ledger.written() == before
            await agent.say("so far so good")

    async with opened(**budget(tokens=1000, let_turns_finish=True)) as team:
        result = await team.run(master=master)
    assert (result.status, result.exit_code) == ("failed", 1)
    assert result.error.startswith(f"{WHY}: 1,050 tokens of 1,000 tokens used")
    assert result.error.endswith("raise --budget-tokens or budgets.tokens")
    assert result.summary == "so far so good"
    assert seen["error"]["code"] == "budget_exceeded"
    assert "finish with what there is" in seen["error"]["hint"]
    [warned] = team.ledger.events("budget_warned")
    [exceeded] = team.ledger.events("budget_exceeded")
    assert (warned["kind"], warned["used"], warned["limit"]) == ("tokens", 850, 1000)
    assert (warned["scope"], warned["provenance"], warned["agent"]) == ("run", "measured", None)
    assert (exceeded["kind"], exceeded["used"], exceeded["limit"]) == ("tokens", 1050, 1000)
    assert team["master"].result.error_kind == "budget_exceeded"
    assert set(team.manager.roster.names().values()) == {"master", "a"}
    assert exceeded["seq"] < team.ledger.events("run_finished")[0]["seq"]


@pytest.mark.requirement("U14")
async def test_a_turn_in_flight_finishes_although_its_parent_may_go_on_no_more(opened):
    done = []
    gate = asyncio.Event()

    async def master(agent):
        await agent.spawn(name="writer")
        await agent.spawn(name="spender")

    async def writer(agent):
        await gate.wait()
        await agent.say("half of it")
        await agent.call("report_progress", status="still writing")
        code = await agent.refused("ask_parent", question="may I?")
        done.append(code)
        await agent.complete("written")

    async def spender(agent):
        await agent.use(total_tokens=5000)
        await agent.complete("spent")

    async with opened(**budget(tokens=1000, let_turns_finish=True)) as team:
        run = team.start(master=master, writer=writer, spender=spender)
        await team.seen("budget_exceeded")
        await team.settled()
        assert not team["master"].has_ended
        assert not team["writer"].has_ended
        gate.set()
        result = await run
    assert done == ["parent_ended"]
    assert (result.status, team["master"].result.error_kind) == ("failed", "budget_exceeded")
    assert team["writer"].result.summary == "written"
    assert team["writer"].result.success


async def test_a_child_whose_next_turn_is_refused_fails_with_what_it_said(as_master):
    results = []

    async def script(agent, _):
        await agent.spawn(name="a")
        results.extend(await agent.collect())

    async def a(agent):
        await agent.spawn(name="b")
        await agent.use(total_tokens=900)
        await agent.say("my half")

    limits = budget(tokens=800, let_turns_finish=True)
    team = await as_master(script, **limits, team={"a": a})
    [result] = results
    assert not result["success"]
    assert (result["summary"], team["a"].result.error_kind) == ("my half", "budget_exceeded")


@pytest.mark.requirement("F6")
async def test_spawns_in_flight_cannot_overdraw_the_budget(as_master):
    codes = []

    async def script(agent, team):
        async def one(number):
            outcome = await agent.outcome(
                "spawn_child", {"prompt": "x", "name": f"c{number}"}, call_id=f"call{number}"
            )
            codes.append(outcome.data["error"]["code"] if outcome.is_error else "spawned")

        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(one(number))
        await agent.collect(3)

    team = await as_master(script, **budget(spawns=3))
    assert sorted(codes) == ["budget_exceeded"] * 5 + ["spawned"] * 3
    assert len(team.manager.roster.records()) == 4
    assert team.engine.budgets.report(team["master"].agent_id)["run"]["spawns"]["used"] == 3


async def test_children_are_spawned_in_parallel_all_or_none(as_master):
    async def script(agent, team):
        before = team.ledger.written()
        three = [{"prompt": "x"}] * 3
        assert await agent.refused("spawn_children_parallel", children=three) == "budget_exceeded"
        assert team.ledger.written() == before
        await agent.call("spawn_children_parallel", children=three[:2])
        await agent.collect(2)

    await as_master(script, **budget(spawns=2))


@pytest.mark.requirement("U14")
async def test_a_subtree_has_a_budget_of_its_own(as_master):
    seen: dict[str, Any] = {}

    async def script(agent, _):
        await agent.spawn(name="a", budget={"tokens": 500, "spawns": 1})
        await agent.collect()
        await agent.spawn(name="other")
        await agent.collect()

    async def a(agent):
        await agent.spawn(name="b")
        seen["code"] = await agent.refused("spawn_child", prompt="x")
        await agent.use(total_tokens=300)
        await agent.collect()
        seen["budget"] = await agent.call("get_budget")
        await agent.complete("enough")

    async def b(agent):
        await agent.use(total_tokens=250)
        await agent.complete()

    limits = budget(tokens=100_000, let_turns_finish=True)
    team = await as_master(script, **limits, team={"a": a, "b": b})
    assert seen["code"] == "budget_exceeded"
    own, run = seen["budget"]["subtree"], seen["budget"]["run"]
    assert own["tokens"] == {"used": 550, "reserved": 0, "left": 0, "limit": 500} | {
        "from": "measured"
    }
    assert (own["spawns"]["left"], "limit" in run["spawns"]) == (0, False)
    assert run["tokens"]["limit"] == 100_000
    warned = {(e["agent"], e["kind"], e["scope"]) for e in team.ledger.events("budget_warned")}
    assert warned == {("a", "tokens", "subtree"), ("a", "spawns", "subtree")}
    assert team["a"].descriptor.grant.budget == Budget(tokens=500, spawns=1)
    assert team["b"].descriptor.grant.budget == Budget(tokens=500, spawns=1)
    limits = "SELECT grant_limits FROM agents JOIN agent_specs USING (agent_id) WHERE name = 'b'"
    assert team.ledger.one(limits) == '{"budget":{"tokens":500,"spawns":1}}'


@pytest.mark.requirement("U15")
async def test_a_child_is_never_given_more_than_its_parent_has_left(as_master):
    async def script(agent, team):
        await agent.use(total_tokens=300)
        await agent.spawn(name="a", budget={"tokens": 10**9})
        left = team["a"].descriptor.grant.budget.tokens
        assert left is not None
        assert left <= 700
        await agent.collect()

    await as_master(script, **budget(tokens=1000))


async def test_a_killed_agent_gives_back_what_it_had_reserved(opened):
    async def master(agent):
        await agent.spawn(name="a")
        ledger, master_id = team.engine.budgets, agent.id
        await used.wait()
        assert ledger.report(master_id)["run"]["tokens"]["reserved"] == 1970
        await team.manager.kill_agent(team["a"].agent_id)
        await agent.collect()
        assert ledger.report(master_id)["run"]["tokens"] == {
            "used": 30,
            "reserved": 1000,
            "left": 8970,
            "limit": 10_000,
            "from": "measured",
        }
        await agent.complete()

    async def a(agent):
        await agent.use(total_tokens=30)
        used.set()
        await agent.hang()

    used = asyncio.Event()
    async with opened(**budget(tokens=10_000)) as team:
        result = await team.run(master=master, a=a)
    assert result.status == "completed", result


async def test_an_agent_killed_before_its_first_turn_gives_everything_back(opened):
    async def master(agent):
        await agent.spawn(name="waits")  # the only slot is the master's
        before = team.engine.budgets.room(agent.id)
        await team.manager.kill_agent(team["waits"].agent_id)
        after = team.engine.budgets.room(agent.id)
        assert (after.turns, after.spawns) == (before.turns + 1, before.spawns)
        assert after.tokens == before.tokens + 1000
        await agent.collect()
        await agent.complete()

    async with opened(
        engine={"max_concurrent_agents": 1}, **budget(tokens=10_000, turns=9, spawns=9)
    ) as team:
        result = await team.run(master=master)
    assert result.status == "completed", result


async def test_a_spawn_that_cannot_be_written_reserves_nothing(opened):
    async def master(agent):
        await agent.begin_to_say("hm")
        before = team.engine.budgets.report(agent.id)
        team.store.broken = StoreError("it does not fit", code="unfit")
        try:
            request = SpawnRequest(prompt="x", parent_id=agent.id)
            with pytest.raises(StoreError):
                await team.manager.spawn_agent(request)
        finally:
            team.store.broken = None
        assert team.engine.budgets.report(agent.id) == before
        await agent.complete()

    async with opened(**budget(tokens=10_000, spawns=2)) as team:
        await team.run(master=master)


async def test_turns_are_counted_and_the_one_too_many_is_refused(opened):
    async def master(agent):
        await agent.say(f"turn {agent.turn}")
        if agent.turn == 1:
            await agent.spawn(name="a")
        return StopReason.END_TURN

    async def a(agent):
        await agent.complete()

    async with opened(**budget(turns=2)) as team:
        result = await team.run(master=master, a=a)
    assert result.status == "failed"
    assert "2 turns of 2 turns used" in result.error
    assert "raise budgets.turns" in result.error


async def test_a_restart_is_a_launch_too(as_master):
    async def script(agent, team):
        name = await agent.spawn(name="a")
        await agent.collect()
        assert await agent.refused("restart_child", child_id=name, prompt="more") == (
            "budget_exceeded"
        )
        assert team["a"].has_ended

    await as_master(script, **budget(spawns=1))


async def test_every_run_of_a_session_has_its_own_budget(opened):
    async def master(agent):
        await agent.use(total_tokens=900)
        await agent.complete(f"turn {agent.turn}")

    async with opened(**budget(tokens=1000)) as team:
        first = await team.run(master=master)
        second = await team.engine.run_continuation("more", team["master"].agent_id)
    assert (first.status, second.status) == ("completed", "completed")
    assert len(team.ledger.events("budget_warned")) == 2


@pytest.mark.requirement("U16")
async def test_every_number_says_where_it_comes_from(opened):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.use(cost_usd=0.25, total_tokens=100)
        await agent.collect()
        await agent.complete()

    async def a(agent):
        usage = TokenUsage(input_tokens=40, output_tokens=2, total_tokens=42)
        report = UsageReported(
            usage, provenance=Provenance.REPORTED, context_used=5000, context_window=200_000
        )
        await agent.tell(report)
        await agent.spawn(name="b")
        await agent.collect()
        await agent.complete()

    async with opened() as team:
        await team.run(master=master, a=a)
        rows = {row.descriptor.name: row for row in await team.store.agents(SESSION)}
    turns = {e["agent"]: e for e in team.ledger.events("turn_finished")}
    of = {name: turns[name] for name in ("master", "a", "b")}
    assert of["master"]["provenance"] == {"tokens": "measured", "cost": "measured"}
    assert of["a"]["provenance"] == {"tokens": "reported", "cost": "unknown"}
    assert of["b"]["provenance"] == {"tokens": "unknown", "cost": "unknown"}
    assert (of["master"]["cost_usd"], of["b"]["cost_usd"]) == (0.25, None)
    spent = rows["master"].spent + rows["a"].spent + rows["b"].spent
    assert spent.to_dict()["provenance"] == {"tokens": "reported", "cost": "measured"}
    assert spent.to_dict()["unknown_turns"] == {"tokens": 1, "cost": 2}
    assert spent.usage.total_tokens == 142
    [finished] = team.ledger.events("run_finished")
    assert finished["provenance"] == {"tokens": "reported", "cost": "measured"}


@pytest.mark.requirement("U7")
async def test_a_turn_tells_how_full_the_window_is(opened):
    async def master(agent):
        await agent.use(input_tokens=900, output_tokens=100)
        await agent.use(input_tokens=1500, output_tokens=100)
        await agent.spawn(name="silent")
        await agent.collect()
        await agent.complete()

    window = {"settings": {"model_registry": {"default": {"max_context": 8000}}}}
    async with opened(**window) as team:
        await team.run(master=master)
    turns = {e["agent"]: e["context"] for e in team.ledger.events("turn_finished")}
    assert turns["master"] == {"used": 1600, "window": 8000}
    assert turns["silent"] is None


async def test_a_provider_that_tells_no_cost_is_named_once_where_dollars_are_limited(opened):
    async def master(agent):
        await agent.use(total_tokens=5)
        await agent.spawn(name="a")
        await agent.collect()
        await agent.complete()

    async with opened(**budget(usd=1.0)) as team:
        await team.run(master=master)
    told = [
        e["text"] for e in team.ledger.events("notice") if "told nothing of its usd" in e["text"]
    ]
    assert len(told) == 1


async def test_the_manager_refuses_with_a_typed_error(opened):
    async def master(agent):
        with pytest.raises(AgentSpawnError) as caught:
            await team.manager.spawn_agent(
                SpawnRequest(prompt="x", parent_id=agent.id, budget=Budget(turns=0))
            )
        assert isinstance(caught.value, BudgetExceededError)
        await agent.complete()

    async with opened() as team:
        result = await team.run(master=master)
    assert result.status == "completed", result
