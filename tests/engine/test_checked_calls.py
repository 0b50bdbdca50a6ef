"""Permission checks of plugins that are asked about orchestration calls."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.cli.leading import Seat
from prsm_core.config.schema import PermissionSettings
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny, PermissionRequest
from prsm_core.engine.tools.table import ToolTable
from prsm_core.interfaces.permission import PermissionCheckSpec
from prsm_core.permissions import PermissionBroker
from tests.command_policies import policy_for
from tests.engine.harness import DEADLINE

MODES = list(PermissionMode)


def watcher(verdicts, seen=None, **fields):
    """Return a check that answers by the name of the tool and notes what it is asked."""

    async def check(request, context):
        if seen is not None:
            seen.append((request.tool, dict(request.arguments), request.command, context.mode))
        verdict = verdicts.get(request.tool)
        if isinstance(verdict, BaseException):
            raise verdict
        return verdict

    return PermissionCheckSpec(name="watcher", summary="", priority=1, check=check, **fields)


@pytest.fixture
def watched(opened, tmp_path):
    """Open a team under the real permission function with one check."""

    @asynccontextmanager
    async def open_watched(spec, **fields):
        broker = PermissionBroker(
            PermissionSettings(),
            checks={spec.name: spec},
            orchestration=ToolTable().names,
            commands=policy_for(PermissionSettings()),
        )
        async with opened(broker=broker, **fields) as team:
            yield team

    return open_watched


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("in_bypass", [False, True])
async def test_a_denied_spawn_is_an_error_that_names_the_check_in_every_mode(
    watched, mode, in_bypass
):
    seen: list[tuple] = []
    verdicts = {"spawn_children_parallel": Deny("no more agents")}
    check = watcher(verdicts, seen, orchestration=True, in_bypass=in_bypass)
    children = [{"prompt": "work"}]

    async def spawns(agent):
        outcome = await agent.outcome("spawn_children_parallel", {"children": children})
        error = outcome.data["error"]
        assert error["code"] == "permission_denied"
        assert "no more agents" in error["message"]
        assert "the permission check watcher" in error["message"]

    async def master(agent):
        await spawns(agent)
        await agent.spawn(name="a", wait=True)
        await agent.complete()

    async def a(agent):
        await spawns(agent)
        await agent.complete()

    async with watched(check) as team:
        result = await team.run("do it", {"mode": mode}, master=master, a=a)
        own = team["a"].descriptor.mode
    assert result.status == "completed"
    assert sorted(team.ledger.rows("SELECT name FROM agents")) == [("a",), ("master",)]
    asked = [each for each in seen if each[0] == "spawn_children_parallel"]
    assert [each[:3] for each in asked] == [(asked[0][0], {"children": children}, None)] * 2
    assert asked[1][3] is own
    events = team.ledger.events("check_denied")
    assert [(event["agent"], event["check"]) for event in events] == [
        ("master", "watcher"),
        ("a", "watcher"),
    ]
    assert events[0]["reason"] == "no more agents"
    rows = team.ledger.rows("SELECT status, error FROM tool_calls WHERE tool_name LIKE '%parallel'")
    assert [status for status, _ in rows] == ["failed", "failed"]
    assert all("watcher" in error for _, error in rows)


async def test_every_call_of_every_agent_is_seen_also_one_of_no_tool(watched):
    seen: list[tuple] = []

    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        assert await agent.refused("teleport") == "unknown_tool"
        await agent.call("get_children_status")
        await agent.complete()

    async def a(agent):
        await agent.call("run_bash", command="ls")
        await agent.complete()

    check = watcher({}, seen, orchestration=True, in_bypass=True)
    async with watched(check) as team:
        await team.run("do it", {"mode": PermissionMode.BYPASS}, master=master, a=a)
    tools = [tool for tool, *_ in seen]
    assert sorted(tools) == sorted(
        [
            *("spawn_child", "wait_for_message", "teleport", "get_children_status"),
            *("run_bash", "Bash", "task_complete", "task_complete"),
        ]
    )
    commands = {tool: command for tool, _, command, _ in seen}
    assert (commands["run_bash"], commands["Bash"]) == (None, "ls")


async def test_a_check_that_does_not_say_so_sees_no_call_and_nothing_is_asked(watched, monkeypatch):
    async def master(agent):
        await agent.spawn(name="a", wait=True)
        await agent.complete()

    async with watched(watcher({"spawn_child": Deny("no")}, in_bypass=True)) as team:

        async def never(*_):
            raise AssertionError("the broker was asked")

        monkeypatch.setattr(team.broker, "judge_call", never)
        result = await team.run("do it", master=master)
    assert result.status == "completed"
    assert team.ledger.events("check_denied") == []


@pytest.mark.parametrize("verdict", ["once", "deny"])
async def test_a_person_answers_what_a_check_asks_about_a_call(watched, verdict):
    ask = Ask("a new agent costs money", ("once", "always", "deny"), ("spawn one",))

    async def master(agent):
        outcome = await agent.outcome("spawn_child", {"prompt": "work", "name": "a"})
        assert outcome.is_error is (verdict == "deny"), outcome.text
        if outcome.is_error:
            assert "the user refused it" in outcome.text
            assert "watcher" in outcome.text
        else:
            await agent.collect()
        await agent.complete()

    check = watcher({"spawn_child": ask}, orchestration=True)
    async with watched(check, interactive=True) as team:
        running = team.start("do it", master=master)
        asked = await team.seen("permission_requested", "master")
        assert (asked.data["tool"], asked.data["reason"]) == ("spawn_child", ask.reason)
        assert asked.data["options"] == ["once", "deny"]
        assert asked.data["parts"] == ["spawn one"]
        assert asked.data["check"] == "watcher"
        requests = team.engine.requests
        assert requests.resolve(asked.data["request"], "permission", {"verdict": verdict})
        assert (await running).status == "completed"
    [resolved] = team.ledger.events("permission_resolved")
    assert (resolved["verdict"], resolved["check"]) == (verdict, "watcher")


async def test_a_call_that_nobody_answers_about_is_refused_when_it_is_too_late(watched):
    async def master(agent):
        outcome = await agent.outcome("spawn_child", {"prompt": "work"})
        assert "nobody answered in time" in outcome.text
        await agent.complete()

    check = watcher({"spawn_child": Ask("hm")}, orchestration=True)
    async with watched(check, interactive=True, clock=FakeClock()) as team:
        result = await team.run("do it", master=master)
    assert result.status == "completed"
    [resolved] = team.ledger.events("permission_resolved")
    assert (resolved["by"], resolved["check"]) == ("timeout", "watcher")


@pytest.mark.parametrize("failure", [ValueError("broken"), asyncio.CancelledError(), KeyError()])
async def test_a_check_that_fails_refuses_the_call_and_is_named(watched, failure):
    async def master(agent):
        outcome = await agent.outcome("spawn_child", {"prompt": "work"})
        assert outcome.data["error"]["code"] == "permission_denied"
        assert "watcher" in outcome.text
        await agent.complete()

    check = watcher({"spawn_child": failure}, orchestration=True)
    async with watched(check) as team:
        assert (await team.run("do it", master=master)).status == "completed"
    [event] = team.ledger.events("check_denied")
    assert event["check"] == "watcher"


async def test_what_a_check_denies_of_a_vendors_tools_is_recorded_with_its_name_too(watched):
    async def master(agent):
        await agent.spawn(name="a", wait=True)
        await agent.complete()

    async def a(agent):
        request = PermissionRequest(agent_id=agent.id, tool="Read", paths=("x",), cwd=".")
        assert await agent.host.authorize(request) == Deny("not this one")
        allowed = PermissionRequest(agent_id=agent.id, tool="Grep", cwd=".")
        assert isinstance(await agent.host.authorize(allowed), Allow)
        await agent.complete()

    async with watched(watcher({"Read": Deny("not this one")})) as team:
        assert (await team.run("do it", master=master, a=a)).status == "completed"
    [event] = team.ledger.events("check_denied")
    assert (event["agent"], event["check"], event["tool"]) == ("a", "watcher", "Read")
    assert (event["paths"], event["reason"]) == (["x"], "not this one")


async def test_a_master_outside_is_seen_as_well(watched):
    seat = Seat()
    seen: list[tuple] = []
    check = watcher({"spawn_child": Deny("no more agents")}, seen, orchestration=True)
    async with watched(check, external=seat.spec) as team:
        run = team.start("lead")
        async with asyncio.timeout(DEADLINE):
            host = await seat.host()
            for patience_s in (None, 30.0):
                outcome = await host.call_tool(
                    "spawn_child", {"prompt": "work"}, patience_s=patience_s
                )
                assert outcome.data["error"]["code"] == "permission_denied"
            seat.leave()
            await run
    assert [tool for tool, *_ in seen] == ["spawn_child", "spawn_child"]
    assert len(team.ledger.events("check_denied", "master")) == 2
