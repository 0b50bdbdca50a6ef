"""Grants: whatever is asked for, a child never holds more than its parent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from prsm_core.config.schema import Settings
from prsm_core.domain.agents import AgentRole, Grant, PermissionMode, SpawnRequest
from prsm_core.domain.budgets import NO_LIMITS, Budget
from prsm_core.domain.notes import ModelChoice
from prsm_core.domain.tools import NATIVE_TOOLS, READ_TOOLS
from prsm_core.engine.providers.model_choice import Workforce
from prsm_core.engine.providers.model_names import ModelNames
from prsm_core.engine.spawn import (
    LADDER,
    Identity,
    describe_child,
    describe_master,
    may_spawn,
    region_fits,
)
from prsm_core.engine.tools.table import ToolTable
from prsm_core.errors import AgentSpawnError, MaxDepthExceededError

MODELS = ("script/default", "script/small", "script/large")
TOOLS = st.frozensets(st.sampled_from(sorted(NATIVE_TOOLS)))
LIMIT = st.none() | st.integers(0, 50)
BUDGETS = st.builds(Budget, tokens=LIMIT, usd=LIMIT, turns=LIMIT, spawns=LIMIT)
REGIONS = ("tmp", "tmp/a", "tmp/a/b", "var")
REQUESTS = st.builds(
    SpawnRequest,
    prompt=st.just("work"),
    role=st.sampled_from([AgentRole.WORKER, AgentRole.REVIEWER, AgentRole.EXPERT]),
    tools=st.none() | TOOLS,
    mode=st.none() | st.sampled_from(PermissionMode),
    model=st.none() | st.sampled_from(MODELS),
    models=st.none() | st.frozensets(st.sampled_from(MODELS)),
    depth=st.none() | st.integers(0, 4),
    budget=st.none() | BUDGETS,
    region=st.none() | st.lists(st.sampled_from(REGIONS), max_size=2).map(tuple),
)
SETTINGS = Settings.of({"engine": {"max_agent_depth": 4}})


def fits(child, parent):
    """Return whether a grant is one that a parent with the other may hand down."""
    return (
        child.tools <= parent.tools
        and LADDER.index(child.mode) <= LADDER.index(parent.mode)
        and (parent.models is None or (child.models is not None and child.models <= parent.models))
        and (parent.depth is None or (child.depth is not None and child.depth < parent.depth))
        and child.budget.fits(parent.budget)
        and region_fits(child.region, parent.region)
    )


def identity(number):
    return Identity(
        agent_id=f"a{number}", name=f"w{number}", session_id="s", run_id="r", created_at=0.0
    )


def workforce(settings):
    names = ModelNames(settings=settings, providers={"script"})
    return Workforce(names=names, usable={"script"}, summaries={})


def describe(request, parent, number=1, settings=SETTINGS):
    return describe_child(
        request,
        parent,
        identity(number),
        workforce=workforce(settings),
        refused={},
        workspace="/",
        mcp_servers={},
    )


def make_master(settings=SETTINGS, mode=PermissionMode.DEFAULT, **grant):
    master = describe_master(
        "do it",
        identity(0),
        workforce=workforce(settings),
        choice=ModelChoice(provider="script", model="default"),
        mode=mode,
        tools=None,
        cwd="/",
        mcp_servers={},
    )
    return replace(master, grant=replace(master.grant, **grant))


def absolute(region):
    return tuple(f"/{folder}" for folder in region)


GRANTS = st.fixed_dictionaries(
    {},
    optional={
        "tools": TOOLS,
        "models": st.none() | st.frozensets(st.sampled_from(MODELS), min_size=1),
        "depth": st.none() | st.integers(0, 4),
        "budget": BUDGETS,
        "region": st.none() | st.lists(st.sampled_from(REGIONS), max_size=2).map(absolute),
    },
)


@pytest.mark.requirement("U15", "F5")
@given(
    data=st.data(),
    mode=st.sampled_from(PermissionMode),
    grant=GRANTS,
    requests=st.lists(REQUESTS, max_size=12),
)
def test_in_every_tree_a_child_holds_no_more_than_its_parent(data, mode, grant, requests):
    master = make_master(mode=mode, **grant)
    tree = [master]
    refusals = set()
    for number, request in enumerate(requests, 1):
        parent = data.draw(st.sampled_from(tree))
        try:
            child = describe(request, parent, number)
        except AgentSpawnError as error:
            refusals.add(error.code)
            continue
        except MaxDepthExceededError:
            assert not may_spawn(parent, SETTINGS)
            continue
        tree.append(child)
        assert may_spawn(parent, SETTINGS)
        assert fits(child.grant, parent.grant)
        assert fits(child.grant, replace(master.grant, depth=parent.grant.depth))
        assert child.tools <= child.grant.tools
        if child.mode is PermissionMode.DELEGATE:
            assert child.tools <= READ_TOOLS
        else:
            assert LADDER.index(child.mode) <= LADDER.index(child.grant.mode)
        model = f"{child.provider}/{child.model}"
        assert child.grant.models is None or model in child.grant.models
        assert child.grant.budget.fits(request.budget or NO_LIMITS)
        tools = ToolTable().for_agent(child, SETTINGS)
        assert "spawn_child" not in tools.names or may_spawn(child, SETTINGS)
    assert refusals <= {"not_granted", "unknown_tool"}


@given(BUDGETS, BUDGETS, BUDGETS)
def test_budgets_are_a_lattice(one, other, third):
    both = one.within(other)
    assert both.fits(one)
    assert both.fits(other)
    assert both == other.within(one)
    assert both.within(third) == one.within(other.within(third))
    assert one.within(one) == one == one.within(NO_LIMITS)


def test_a_budget_below_zero_is_none():
    for limit in (-1, float("nan")):
        with pytest.raises(ValueError, match="budget"):
            Budget(usd=limit)


def test_the_runs_budget_is_the_masters():
    settings = Settings.of({"budgets": {"tokens": 5, "usd": 0.5}})
    assert make_master(settings).grant.budget == Budget(tokens=5, usd=0.5)


def test_a_model_beyond_the_grant_is_refused_and_the_others_are_named():
    parent = make_master(models=frozenset(MODELS[:2]))
    child = describe(SpawnRequest(prompt="x", model="script/small"), parent)
    assert child.grant.models == parent.grant.models
    with pytest.raises(AgentSpawnError) as caught:
        describe(SpawnRequest(prompt="x", model="script/large"), parent)
    assert caught.value.code == "not_granted"
    assert caught.value.hint == "you may use script/default, script/small"


def test_a_depth_runs_out_level_by_level():
    parent = make_master(depth=2)
    child = describe(SpawnRequest(prompt="x"), parent)
    grandchild = describe(SpawnRequest(prompt="x", depth=3), child)
    assert (child.grant.depth, grandchild.grant.depth) == (1, 0)
    with pytest.raises(MaxDepthExceededError):
        describe(SpawnRequest(prompt="x"), grandchild)
    assert "spawn children" not in grandchild.system_prompt


@pytest.mark.parametrize(
    "more",
    [
        Grant(tools=frozenset({"Read", "Bash"}), depth=1),
        Grant(tools=frozenset({"Read"}), mode=PermissionMode.BYPASS, depth=1),
        Grant(tools=frozenset({"Read"}), depth=2),
        Grant(tools=frozenset({"Read"}), depth=None),
        Grant(tools=frozenset({"Read"}), models=None, depth=1),
        Grant(tools=frozenset({"Read"}), models=frozenset({"a/c"}), depth=1),
        Grant(tools=frozenset({"Read"}), depth=1, budget=NO_LIMITS),
        Grant(tools=frozenset({"Read"}), depth=1, budget=Budget(tokens=11)),
    ],
)
def test_more_of_anything_does_not_fit(more):
    parent = Grant(
        tools=frozenset({"Read"}), models=frozenset({"a/b"}), depth=2, budget=Budget(tokens=10)
    )
    assert not fits(more, parent)
    assert fits(replace(parent, depth=1), parent)
