"""Command lines as agents of the whole application: their tools by proxy and bridge."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from plugins.prsm_mcp.tests import cli_plugin
from plugins.prsm_mcp.tests.client import BridgeClient
from prsm_core.app import _bridge
from prsm_core.errors import ControlError
from prsm_core.kit.clocks import SystemClock
from prsm_core.kit.programs import proxy_missing


@pytest.fixture
def told():
    """The answers that the agents' calls got."""
    cli_plugin.answers.clear()
    cli_plugin.processes.clear()
    return cli_plugin.answers


@pytest.mark.requirement("E13", "E67", "E68")
async def test_a_team_of_command_lines_works_by_the_tools_of_its_proxies(team, told):
    child = json.dumps(
        [["report_progress", {"status": "half"}], ["task_complete", {"summary": "counted"}]]
    )
    task = [
        ["spawn_child", {"prompt": child, "name": "a", "wait": True}],
        ["spawn_child", {}],
        ["nonsense", {}],
        ["task_complete", {"summary": "all counted"}],
    ]
    result, root = await team.run_task(json.dumps(task), provider="cli")
    assert (result.status, result.summary) == ("completed", "all counted"), result
    assert [(child.name, child.state) for child in root.children] == [("a", "completed")]
    masters = [(data, failed) for name, data, failed in told if name == "master"]
    assert masters[0][0]["result"]["summary"] == "counted"
    assert [failed for _, failed in masters] == [False, True, True, False]
    assert masters[1][0]["error"]["code"] == "invalid_arguments"
    assert masters[2][0]["error"]["code"] == "unknown_tool"
    assert not list((team.folder / "home").rglob("*.sock"))


async def test_an_agent_that_is_killed_in_a_call_leaves_no_process_and_no_call(team, told):
    async def kill(app):
        for name in ("master", "a"):
            await team.seen("tool_call_started", name, tool="wait_for_message")
        assert set(await app.agents.kill("master")) == {"master", "a"}

    wait = ["wait_for_message", {"timeout": 3600}]
    task = [["spawn_child", {"prompt": json.dumps([wait]), "name": "a"}], wait]
    result, root = await team.run_task(json.dumps(task), provider="cli", meanwhile=kill)
    assert result.status == "killed"
    assert [child.state for child in root.children] == ["killed"]
    assert all(process.has_exited for process in cli_plugin.processes)


async def test_a_command_line_that_starts_no_server_fails_the_run_clearly(team, told):
    result, _ = await team.run_task("[]", provider="cli", settings={"mute": True})
    assert result.status == "failed"
    assert "did not start the server of its orchestration tools" in str(result.error)
    assert result.exit_code == 3


def test_the_error_of_a_missing_proxy_names_the_program_and_what_to_do():
    error = proxy_missing("gemini", 20)
    assert error.message.startswith("gemini did not start")
    assert "gemini" in str(error.hint)
    assert (error.code, error.exit_code) == ("provider_not_available", 3)


@pytest.mark.requirement("E10")
async def test_each_life_of_an_agent_has_a_token_of_its_own(team):
    tokens: list[str] = []

    async def master(agent):
        await agent.call("spawn_child", prompt="one", name="a", wait=True)
        await agent.call("restart_child", child_id="a", prompt="two", wait=True)
        await agent.complete()

    async def a(agent):
        async with agent.host.mcp_endpoint() as endpoint:
            address, token = endpoint.env["PRSM_SOCKET"], endpoint.env["PRSM_TOKEN"]
            for old in tokens:
                async with BridgeClient(address, endpoint.env["PRSM_AGENT"], old) as late:
                    with pytest.raises(ControlError, match="wrong token"):
                        await late.list_tools()
            tokens.append(token)
            async with BridgeClient(address, endpoint.env["PRSM_AGENT"], token) as client:
                assert await client.list_tools()
        await agent.complete()

    result, _ = await team.run(master=master, a=a)
    assert result.status == "completed", result
    assert len(set(tokens)) == 2


async def test_endpoints_that_are_opened_at_once_share_a_bridge_which_goes_with_its_owner(tmp_path):
    path = tmp_path / "bridge.sock"
    nobody: Any = None  # comes
    async with _bridge(path, SystemClock()) as open_endpoint, AsyncExitStack() as stack:
        assert not path.exists()
        ends = [stack.enter_async_context(open_endpoint(nobody, name)) for name in ("a", "b")]
        first, second = await asyncio.gather(*ends)
        assert first.env["PRSM_SOCKET"] == second.env["PRSM_SOCKET"] == str(path)
        assert path.exists()
    assert not path.exists()
