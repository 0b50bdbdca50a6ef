"""A master that works itself: its tools, its mode, what judges it, and when it is one."""

from __future__ import annotations

import pytest

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.tools import NATIVE_TOOLS, READ_TOOLS
from prsm_core.engine.starting import ONLY_READS

SOLO = {"master": "solo"}


async def begun(opened, mode, engine=SOLO, **options):
    """Run a master that only completes; return its session's request, its tools, the notices."""
    tools = {}

    async def master(agent):
        tools.update({tool.name: tool for tool in agent.host.tools})
        await agent.complete()

    async with opened(engine=engine) as team:
        await team.run("do it", {"mode": mode, **options}, master=master)
    [request] = team.provider.requests["master"]
    return request, tools.keys(), [event["text"] for event in team.ledger.events("notice")]


@pytest.mark.requirement("U31")
@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.BYPASS])
async def test_a_solo_master_works_with_all_tools_in_the_runs_own_mode(opened, mode):
    request, tools, notices = await begun(opened, mode)
    assert (request.native_tools, request.mode) == (NATIVE_TOOLS, mode)
    assert tools >= {"run_bash", "spawn_child", "wait_for_message", "task_complete"}
    assert not tools & {"ask_parent", "report_progress"}
    assert ONLY_READS not in notices
    assert "edit files" in request.system_prompt


async def test_a_solo_master_of_a_plan_stays_in_plan(opened):
    request, _, _ = await begun(opened, PermissionMode.PLAN)
    assert request.mode is PermissionMode.PLAN


async def test_a_run_in_delegate_mode_has_no_solo_master(opened):
    request, tools, _ = await begun(opened, PermissionMode.DELEGATE)
    assert (request.native_tools, request.mode) == (READ_TOOLS, PermissionMode.DELEGATE)
    assert "run_bash" not in tools
    assert "every change to files is made by agents" in request.system_prompt


async def test_bypass_is_not_for_a_master_that_is_given_tools_to_write_with(opened):
    tools = READ_TOOLS | {"Edit"}
    given = {"engine": None, "master_tools": tools}
    request, _, _ = await begun(opened, PermissionMode.DEFAULT, **given)
    assert (request.native_tools, request.mode) == (tools, PermissionMode.DEFAULT)


@pytest.mark.parametrize(
    ("mode", "times"), [(PermissionMode.BYPASS, 1), (PermissionMode.DEFAULT, 0)]
)
async def test_mode_bypass_says_that_a_master_which_only_reads_does_not_edit(opened, mode, times):
    _, _, notices = await begun(opened, mode, engine=None)
    assert notices.count(ONLY_READS) == times


async def test_a_solo_master_below_which_nothing_may_be_is_not_told_to_spawn(opened):
    request, tools, _ = await begun(opened, PermissionMode.DEFAULT, {**SOLO, "max_agent_depth": 0})
    assert "spawn" not in request.system_prompt.lower()
    assert "spawn_child" not in tools


@pytest.mark.requirement("U31")
async def test_what_a_solo_master_spawns_has_the_runs_grant_and_no_more(opened):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.complete()

    async with opened(engine=SOLO) as team:
        options = {"mode": PermissionMode.ACCEPT_EDITS}
        assert (await team.run("do it", options, master=master)).status == "completed"
        grant = team["master"].descriptor.grant
        [child] = team.provider.requests["a"]
    assert (child.native_tools, child.mode) == (grant.tools, PermissionMode.ACCEPT_EDITS)


@pytest.mark.requirement("U31")
async def test_commands_of_a_solo_master_are_under_the_policy(opened):
    async def master(agent):
        refused = await agent.refused("run_bash", command="rm -r .")
        allowed = await agent.call("run_bash", command="echo hi")
        await agent.complete(f"{refused} {allowed['stdout'].strip()}")

    async with opened(engine=SOLO) as team:
        options = {"mode": PermissionMode.BYPASS}
        result = await team.run("do it", options, master=master)
    assert result.summary == "permission_denied hi"


@pytest.mark.requirement("U31")
@pytest.mark.parametrize(("engine", "code"), [(SOLO, 5), (None, 0)], ids=["solo", "delegate"])
async def test_gates_for_workers_judge_a_master_that_works(opened, engine, code):
    async def master(agent):
        (team.workspace / "made.txt").write_text("x")
        await agent.complete(artifacts=["made.txt"])

    gates = {"tests": {"command": "false", "roles": ["worker"]}}
    given = {"gates": gates, "engine": {**(engine or {}), "gate_refusals": 0}}
    async with opened(settings=given) as team:
        result = await team.run("do it", master=master)
    assert result.exit_code == code
