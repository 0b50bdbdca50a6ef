"""What a provider may spend beyond a budget is said where the budget is set, also in a subtree."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from prsm_core.domain.budgets import Budget
from prsm_core.engine.providers.enforcement import describe_metering
from prsm_core.interfaces.provider import ProviderCapabilities
from tests.engine.harness import ScriptedProvider, complete

pytestmark = pytest.mark.requirement("U14")

LIMITS = {"tokens": 5000, "usd": 0.5}
LATE = (
    "provider script tells its tokens only when a turn ends, so that one turn of each of its"
    " agents may pass the budget of a and its children, 5,000 tokens; and its cost perhaps not at"
    " all, so that its agents may pass the budget of a and its children, $0.5"
)


def told(team):
    """Return what was told of budgets that may be passed, with the place in the order of events."""
    events = team.ledger.events()
    kinds = [(e["type"], e["agent"]) for e in events]
    notices = [
        (n, e["text"])
        for n, e in enumerate(events)
        if e["type"] == "notice" and "may pass the budget" in e["text"]
    ]
    return kinds, notices


def capable(tokens="turn", cost="none"):
    capabilities = ProviderCapabilities(enforcement="pre_tool", tokens_told=tokens, cost_told=cost)
    return {"capabilities": capabilities}


async def test_a_subtrees_budget_that_may_be_passed_is_said_as_it_is_given(opened):
    """To the person before the agent's first turn, and to the agent that gives it."""
    answers = []

    async def master(agent):
        answers.append(await agent.call("spawn_child", prompt="x", name="a", budget=LIMITS))
        await agent.collect()
        await agent.complete()

    async with opened(**capable()) as team:
        assert (await team.run(master=master)).status == "completed"
    kinds, [(place, text)] = told(team)
    assert text == answers[0]["note"] == LATE
    assert kinds.index(("agent_spawned", "a")) < place < kinds.index(("turn_started", "a"))


async def test_it_is_said_once_for_all_agents_of_the_subtree_and_not_for_others(opened):
    async def master(agent):
        plain = await agent.call("spawn_child", prompt="x", name="b")
        assert "note" not in plain
        several = [{"prompt": "x", "name": name, "budget": {"tokens": 9}} for name in ("c", "d")]
        given = await agent.call("spawn_children_parallel", children=several)
        assert ["c and its" in child["note"] for child in given["children"]] == [True, False]
        await agent.spawn(name="a", budget=LIMITS)
        await agent.collect(4)
        await agent.complete()

    async def a(agent):
        await agent.spawn(name="a2")
        await agent.collect()
        await agent.complete()

    async with opened(**capable()) as team:
        assert (await team.run(master=master, a=a)).status == "completed"
    _, notices = told(team)
    assert [text.count(" and its children") for _, text in notices] == [1, 1, 2]
    assert sum("of a and its children" in text for _, text in notices) == 1


async def test_who_tells_each_step_is_not_spoken_of(opened):
    async def master(agent):
        answer = await agent.call("spawn_child", prompt="x", name="a", budget=LIMITS)
        assert "note" not in answer
        await agent.collect()
        await agent.complete()

    async with opened(**capable("step", "step")) as team:
        assert (await team.run(master=master)).status == "completed"
    assert told(team)[1] == []


async def test_another_vendor_within_a_subtree_is_said_before_its_first_turn(opened):
    """Its agent was given no budget, and draws on the one of the agent above it."""

    async def master(agent):
        answer = await agent.call("spawn_child", prompt="x", name="a", budget={"tokens": 5000})
        assert "note" not in answer
        await agent.collect()
        await agent.complete()

    async def a(agent):
        for name in ("a1", "a2"):
            await agent.spawn(name=name, model="late")
        await agent.collect(2)
        await agent.complete()

    other = ScriptedProvider(**capable("turn"))
    late = replace(other.spec(), name="late")
    settings = {"defaults": {"provider": "script"}}
    async with opened(others=[late], settings=settings, **capable("step")) as team:
        assert (await team.run(master=master, a=a)).status == "completed"
    kinds, [(place, text)] = told(team)
    assert text.startswith("provider late tells its tokens only when a turn ends")
    assert "of a and its children, 5,000 tokens" in text
    assert place < kinds.index(("turn_started", "a1"))


class Mute(ScriptedProvider):
    """A provider whose program does not say whether it is there."""

    async def probe(self):
        raise OSError("no answer")


async def test_a_runs_budget_that_may_be_passed_is_said_before_the_agent_whatever_the_probe_says(
    opened,
):
    async def master(agent):
        await agent.spawn(name="w1", model="late/x")
        await agent.collect()
        await agent.complete()

    mute = Mute(**capable("turn"))
    mute.behaviours["w1"] = complete
    settings = {"defaults": {"provider": "script"}, "budgets": {"tokens": 5000}}
    late = replace(mute.spec(), name="late")
    async with opened(others=[late], settings=settings, **capable("step")) as team:
        assert (await team.run(master=master)).status == "completed"
    kinds, [(place, text)] = told(team)
    assert text.startswith("provider late tells its tokens only when a turn ends")
    assert place < kinds.index(("turn_started", "w1"))


@pytest.mark.parametrize("tokens", ["step", "turn", "none"])
@pytest.mark.parametrize("cost", ["step", "turn", "none"])
@pytest.mark.parametrize("whose", ["", "w1"])
def test_each_kind_that_is_limited_and_told_late_is_named_with_its_limit(tokens, cost, whose):
    capabilities = ProviderCapabilities(tokens_told=tokens, cost_told=cost)
    for limits in (Budget(), Budget(tokens=5), Budget(usd=2), Budget(tokens=5, usd=2)):
        text = describe_metering("x", limits, capabilities, whose)
        assert ("5 tokens" in text) == (limits.tokens is not None and tokens != "step")
        assert ("$2" in text) == (limits.usd is not None and cost != "step")
        assert text.count("w1 and its children") == bool(whose) * text.count("the budget of")
    assert describe_metering("x", Budget(turns=1, spawns=1), capabilities) == ""
