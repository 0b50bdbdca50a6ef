"""A master that works itself: its tools, its mode, what judges it, and when it is one."""

from __future__ import annotations

import pytest

from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.tools import NATIVE_TOOLS, READ_TOOLS
from prsm_core.engine.starting import ONLY_READS
from prsm_core.errors import ConfigError
from prsm_core.interfaces.permission import PermissionCheckSpec

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


async def of_protocol(labels, workspace):
    """Answer as a plugin does that has to read something first."""
    if labels["protocol"] == "gone":
        raise ConfigError("there is no protocol gone")
    return labels["protocol"] == "alone"


def check(solo):
    """Return what a plugin registers that reads the label `protocol`."""
    labels = frozenset({"protocol"})
    return PermissionCheckSpec(
        name="states", summary="", priority=1, check=lambda *_: None, labels=labels, solo=solo
    )


async def begun_under(opened, solo, *, trusted=True, **labels):
    """Return the tools of the master's vendor, and the notices, of a run with these labels."""
    config = {"checks": (check(solo),), "trusted": trusted}

    async def master(agent):
        await agent.complete()

    async with opened(config=config) as team:
        await team.run("do it", {"labels": labels}, master=master)
    [request] = team.provider.requests["master"]
    return request.native_tools, [event["text"] for event in team.ledger.events("notice")]


@pytest.mark.requirement("U31")
@pytest.mark.parametrize("solo", [of_protocol, lambda labels, _: labels["protocol"] == "alone"])
@pytest.mark.parametrize(("protocol", "tools"), [("alone", NATIVE_TOOLS), ("other", READ_TOOLS)])
async def test_what_holds_a_run_by_its_labels_may_make_its_master_solo(
    opened, solo, protocol, tools
):
    given, notices = await begun_under(opened, solo, protocol=protocol)
    assert (given, notices) == (tools, [])


@pytest.mark.parametrize(
    "others", [{"trusted": False, "protocol": "alone"}, {"other": "alone"}, {}]
)
async def test_it_is_asked_in_a_trusted_workspace_and_of_its_own_labels_alone(opened, others):
    asked = []

    def solo(*given):
        asked.append(given)
        return True

    tools, _ = await begun_under(opened, solo, **others)
    assert (tools, asked) == (READ_TOOLS, [])


@pytest.mark.parametrize(
    ("solo", "why"),
    [(of_protocol, "there is no protocol gone"), (lambda *_: "yes", "it gave a str"),
     (lambda *_: 1 / 0, "division by zero"), ("nowhere_at_all:solo", "nowhere_at_all")],
)  # fmt: skip
async def test_where_that_cannot_be_told_the_master_delegates_and_it_says_why(opened, solo, why):
    tools, notices = await begun_under(opened, solo, protocol="gone")
    assert tools == READ_TOOLS
    [notice] = [text for text in notices if "the master only delegates: " in text]
    assert why in notice
