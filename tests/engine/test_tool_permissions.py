"""Calls of plugins' tools are decided as PRSM's own are, by the labels as they are then."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from prsm_core.config.schema import PermissionSettings
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Deny, PermissionRequest
from prsm_core.errors import StoreError
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.permissions import PermissionBroker
from tests.command_policies import policy_for
from tests.engine.deaths import die, go_on
from tests.engine.test_plugin_tools import LABELS, move, table, tool


@pytest.fixture
def checked(opened, tmp_path):
    """Open a team with the tool `move`, under a check that sees what it may do in which state."""
    seen: list[tuple[str, str]] = []

    async def check(request, context):
        state = context.labels.get("p/state", "start")
        seen.append((request.tool, state))
        if request.tool in {"get_budget", "Read"} and state != "work":
            return Deny(f"not in {state}: move to work")
        if request.tool == "move" and request.arguments["to"] == "nowhere":
            return Deny("there is no such state")
        return None

    spec = PermissionCheckSpec(
        name="states", summary="", priority=1, check=check, in_bypass=True, orchestration=True
    )

    @asynccontextmanager
    async def open_checked(**fields):
        tools = table(tool(move))
        broker = PermissionBroker(
            PermissionSettings(),
            checks={spec.name: spec},
            orchestration=tools.names,
            commands=policy_for(PermissionSettings()),
        )
        async with opened(broker=broker, tools=tools, **fields) as team:
            yield team

    return open_checked, seen


def read(agent):
    path = f"{agent.session.request.cwd}/a.py"
    return PermissionRequest(
        agent_id=agent.id, tool="Read", paths=(path,), cwd=agent.session.request.cwd
    )


@pytest.mark.requirement("A2", "A4")
@pytest.mark.parametrize("mode", list(PermissionMode))
async def test_what_a_state_forbids_is_denied_and_a_move_allows_it(checked, mode):
    opened, seen = checked

    async def master(agent):
        assert await agent.refused("get_budget") == "permission_denied"
        assert isinstance(await agent.host.authorize(read(agent)), Deny)
        assert await agent.refused("move", to="nowhere") == "permission_denied"
        await agent.call("move", to="work")
        await agent.call("get_budget")
        assert isinstance(await agent.host.authorize(read(agent)), Allow)
        await agent.complete()

    async with opened() as team:
        await team.run("do it", {**LABELS, "mode": mode}, master=master)
    before, after = ("get_budget", "Read", "move", "move"), ("get_budget", "Read", "task_complete")
    assert seen == [*((t, "start") for t in before), *((t, "work") for t in after)]
    assert [e["tool"] for e in team.ledger.events("check_denied")] == ["get_budget", "Read", "move"]


@pytest.mark.requirement("A4", "A15")
async def test_a_decision_after_a_restart_is_by_the_state_that_was_written(checked):
    opened, seen = checked

    async def master(agent):
        await agent.call("move", to="work")
        await die(team)

    async def goes_on(agent):
        await agent.call("get_budget")
        await agent.complete()

    async with opened(check=False) as team:
        team.provider.behaviours["master"] = master
        with pytest.raises(StoreError):
            await team.run("do it", LABELS)
    async with opened() as team:
        await go_on(team, master=goes_on)
    assert seen[-2:] == [("get_budget", "work"), ("task_complete", "work")]


async def test_a_vendor_that_asks_leave_for_such_a_tool_is_let_through_to_the_call(checked):
    """As for `spawn_child`: the check sees the call itself."""
    opened, seen = checked

    async def master(agent):
        assert agent.host.is_orchestration("mcp__prsm__move")
        asked = PermissionRequest(agent_id=agent.id, tool="move", arguments={"to": "nowhere"})
        assert isinstance(await agent.host.authorize(asked), Allow)
        assert seen == []
        await agent.complete()

    async with opened() as team:
        await team.run("do it", LABELS, master=master)
