"""Regions: folders that are one agent's to write, and what permissions make of them."""

from __future__ import annotations

import pytest

from prsm_core.config.schema import PermissionSettings
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, PermissionRequest
from prsm_core.engine.spawn import region_fits
from prsm_core.permissions import PermissionBroker
from tests.command_policies import policy_for

IN_PLAN = {"mode": PermissionMode.PLAN}


@pytest.fixture
def as_lead(as_master, tmp_path):
    """Run `script(agent, team)` as a master's only child, under the real permission function."""

    async def run(script, *, team=None, **fields):
        broker = PermissionBroker(
            PermissionSettings(),
            checks={},
            orchestration=(),
            commands=policy_for(PermissionSettings()),
        )
        running = []

        async def master(agent, opened):
            running.append(opened)
            await agent.spawn(name="lead")
            [result] = await agent.collect()
            assert result["success"], result

        def play(script):
            async def behave(agent):
                await script(agent, running[0])
                await agent.complete()

            return behave

        behaviours = {name: play(each) for name, each in {"lead": script, **(team or {})}.items()}
        return await as_master(master, broker=broker, team=behaviours, **fields)

    return run


async def write(agent, team, path):
    """Ask to write a file; return why it is not allowed, or why a person is asked."""
    request = PermissionRequest(
        agent_id=agent.id, tool="Edit", paths=(path,), cwd=agent.session.request.cwd
    )
    verdict = await agent.host.authorize(request)
    if isinstance(verdict, Allow):
        return "allowed"
    asked = team.ledger.events("permission_requested", agent.name)
    return asked[-1]["reason"] if asked else verdict.reason


def names(team):
    return {name for (name,) in team.ledger.rows("SELECT name FROM agents")}


async def test_an_agent_writes_in_its_region_and_must_ask_for_the_rest(as_lead):
    async def script(agent, team):
        for name in ("src", "docs"):
            (team.workspace / name).mkdir()
        (team.workspace / "src" / "way-out").symlink_to(team.workspace / "docs")
        await agent.spawn(name="a", region=["src", "new/folder"])
        await agent.collect()

    async def a(agent, team):
        workspace = agent.session.request.cwd
        assert (
            f'only below "{workspace}/new/folder", "{workspace}/src"' in agent.context.system_prompt
        )
        for path in ("src/x.py", "new/folder/deep/x.py", f"{workspace}/src"):
            assert await write(agent, team, path) == "allowed"
        for path in ("x.py", "docs/x.md", "src/../docs/x.md", "src/way-out/x.md", "source/x.py"):
            assert "outside the agent's region" in await write(agent, team, path)
        read = PermissionRequest(
            agent_id=agent.id, tool="Read", paths=("docs/x.md",), cwd=workspace
        )
        assert isinstance(await agent.host.authorize(read), Allow)

    await as_lead(script, team={"a": a})


async def test_what_is_leased_to_one_is_asked_about_by_all_others_but_those_below_it(as_lead):
    async def script(agent, team):
        await agent.spawn(name="owner", region=["src"])
        message = await agent.call("wait_for_message")  # it holds its lease until it is answered
        assert "in the region of owner" in await write(agent, team, "src/x.py")
        await agent.spawn(name="other", wait=True)
        await agent.call(
            "respond_to_child",
            child_id="owner",
            correlation_id=message["correlation_id"],
            response="go on",
        )
        await agent.collect()
        await agent.spawn(name="late", wait=True)

    async def owner(agent, team):
        await agent.spawn(name="below", wait=True)
        await agent.call("ask_parent", question="more?")

    async def writes(agent, team):
        assert await write(agent, team, "src/x.py") == "allowed"

    async def other(agent, team):
        assert "in the region of owner" in await write(agent, team, "src/x.py")
        assert await write(agent, team, "docs/x.md") == "allowed"

    await as_lead(script, team={"owner": owner, "below": writes, "other": other, "late": writes})


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (["src"], "region_taken"),
        (["src/api"], "region_taken"),
        (["."], "region_taken"),
        (["../elsewhere"], "bad_region"),
        (["/etc"], "bad_region"),
    ],
)
async def test_a_region_that_cannot_be_had_is_refused_and_nobody_is_spawned(as_lead, wanted, code):
    async def script(agent, team):
        await agent.spawn(name="owner", region=["src"])
        message = await agent.call("wait_for_message")
        refused = await agent.refused("spawn_child", prompt="write", region=wanted)
        assert refused == code
        children = [{"prompt": "one", "region": ["docs"]}, {"prompt": "two", "region": wanted}]
        refused = await agent.refused("spawn_children_parallel", children=children)
        assert refused == code
        assert names(team) == {"lead", "master", "owner"}
        await agent.call(
            "respond_to_child",
            child_id="owner",
            correlation_id=message["correlation_id"],
            response="go on",
        )
        await agent.collect()

    async def owner(agent, team):
        await agent.call("ask_parent", question="more?")

    await as_lead(script, team={"owner": owner})


async def test_children_of_one_call_may_not_have_the_same_region(as_lead):
    async def script(agent, team):
        children = [{"prompt": "one", "region": ["src"]}, {"prompt": "two", "region": ["src/a"]}]
        refused = await agent.refused("spawn_children_parallel", children=children)
        assert refused == "region_taken"
        assert names(team) == {"lead", "master"}

    await as_lead(script)


async def test_a_child_gets_no_more_than_its_parents_region(as_lead):
    async def script(agent, team):
        await agent.spawn(name="boss", region=["src"])
        await agent.collect()
        assert team["part"].descriptor.grant.region == (f"{team.workspace}/src/a",)
        assert team["whole"].descriptor.grant.region == (f"{team.workspace}/src",)

    async def boss(agent, team):
        refused = await agent.refused("spawn_child", prompt="write", region=["docs"])
        assert refused == "not_granted"
        await agent.spawn(name="part", region=["src/a"], wait=True)
        await agent.spawn(name="whole", wait=True)

    async def done(agent, team):
        pass

    await as_lead(script, team={"boss": boss, "part": done, "whole": done})


async def test_a_lease_ends_with_its_agent_and_a_restart_needs_it_to_be_free(as_lead):
    async def script(agent, team):
        await agent.spawn(name="first", region=["src"], wait=True)
        await agent.spawn(name="second", region=["src/a"])
        message = await agent.call("wait_for_message")
        refused = await agent.refused("restart_child", child_id="first", prompt="again")
        assert refused == "region_taken"
        await agent.call(
            "respond_to_child",
            child_id="second",
            correlation_id=message["correlation_id"],
            response="go on",
        )
        await agent.collect()
        await agent.call("restart_child", child_id="first", prompt="again", wait=True)

    async def first(agent, team):
        pass

    async def second(agent, team):
        await agent.call("ask_parent", question="more?")

    await as_lead(script, team={"first": first, "second": second})


async def test_in_plan_mode_a_write_outside_the_region_is_no_question(as_lead):
    async def script(agent, team):
        await agent.spawn(name="a", region=["src"], wait=True)

    async def a(agent, team):
        assert "this is plan mode" in await write(agent, team, "docs/x.md")

    await as_lead(script, options=IN_PLAN, team={"a": a})


@pytest.mark.parametrize(
    ("child", "parent", "fits"),
    [
        (None, None, True),
        (("/w/a",), None, True),
        (None, ("/w/a",), False),
        ((), ("/w/a",), True),
        (("/w/a/b",), ("/w/a",), True),
        (("/w/ab",), ("/w/a",), False),
        (("/w/a", "/w/c"), ("/w/a", "/w/b"), False),
    ],
)
def test_a_region_fits_when_each_folder_lies_in_one_of_the_parents(child, parent, fits):
    assert region_fits(child, parent) is fits
