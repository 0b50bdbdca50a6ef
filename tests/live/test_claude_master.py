"""The user's own Claude Code as the master: the real CLI leads a tree through `prsm mcp`."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from pathlib import Path

import pytest
from prsm_testing.model_server import ModelServer

from tests.place import MAIN, Place
from tests.sources import ROOT

pytestmark = pytest.mark.live

DEADLINE_S = 180.0  # the CLI alone takes seconds to start on a busy machine
TASK = "Lead the team"
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "ENABLE_TOOL_SEARCH": "false",  # the tools are in the request at once
}


@pytest.fixture(scope="session")
def claude() -> str:
    """The CLI that the Claude Agent SDK brings along."""
    found = importlib.util.find_spec("claude_agent_sdk")
    path = Path(found.origin).with_name("_bundled") / "claude" if found and found.origin else None
    if path is None or not path.is_file():
        pytest.skip("the Claude Code CLI is not installed: claude-agent-sdk is missing")
    return str(path)


@pytest.fixture
def place(tmp_path):
    """A workspace in which Claude Code runs, with a home of its own."""
    place = Place(tmp_path)
    config = tmp_path / "claude"
    config.mkdir()
    place.env |= QUIET
    place.env |= {"HOME": str(config), "CLAUDE_CONFIG_DIR": str(config / "config")}
    return place


def server_entry(place, *args):
    """Return how Claude Code starts `prsm mcp`; only what stands in `env` is sure to reach it."""
    kept = ("PRSM_HOME", "PRSM_PLUGINS", "LIVE_TEST_KEY")
    return {
        "type": "stdio",
        "command": sys.executable,
        "args": ["-c", MAIN, "mcp", *args],
        "env": {name: place.env[name] for name in kept if name in place.env},
    }


async def lead(claude, place, server, entry, *, allowed=("--allowedTools", "mcp__prsm"), **env):
    """Run Claude Code on the task, with `prsm mcp` as its only MCP server; return its answer."""
    argv = (
        *(claude, "-p", TASK, "--output-format", "json", "--model", "scripted-1"),
        *("--mcp-config", json.dumps({"mcpServers": {"prsm": entry}}), "--strict-mcp-config"),
        *allowed,
    )
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=place.workspace,
        env={
            **{
                name: value for name, value in place.env.items() if not name.startswith("ANTHROPIC")
            },
            "ANTHROPIC_BASE_URL": server.root_url,
            "ANTHROPIC_API_KEY": "loopback",
            **env,
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, (out, err)
    return json.loads(out)


def call(tool, /, **arguments):
    return {"tool": tool, "arguments": arguments, "id": tool}


def master(*steps):
    return {"lanes": {"master": {"marker": TASK, "steps": list(steps)}}}


@pytest.mark.requirement("E65", "D7")
async def test_claude_code_spawns_a_child_answers_it_and_collects_its_result(claude, place):
    place.script(
        w1=[
            {"call": {"id": "rule", "tool": "ask_parent", "arguments": {"question": "Which?"}}},
            {"say": "took ${rule.answer}"},
        ]
    )
    scenario = master(
        {"call": call("spawn_child", name="w1", prompt="Take one.")},
        {"call": {**call("wait_for_message"), "id": "asked"}},
        {
            "expect": ["Which?"],
            "call": call(
                "respond_to_child",
                child_id="w1",
                correlation_id="${asked.correlation_id}",
                response="blue",
            ),
        },
        {"call": {**call("wait_for_message"), "id": "told"}},
        {"expect": ["took blue"], "say": "The child ${told.summary}."},
    )
    script = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
    async with ModelServer(scenario) as server:
        answer = await lead(claude, place, server, server_entry(place, *script))
        assert server.failures == []
        [first, *_] = server.requests
    assert answer["result"] == "The child took blue."
    names = {tool["name"] for tool in first.body["tools"]}
    assert {"mcp__prsm__spawn_child", "mcp__prsm__wait_for_message"} <= names
    assert not {"mcp__prsm__task_complete", "mcp__prsm__ask_parent"} & names
    await ended(place)
    assert await place.states() == {"master": "completed", "w1": "completed"}


@pytest.mark.parametrize(
    ("allowed", "children"), [(("--allowedTools", "mcp__prsm"), ["w1"]), ((), [])]
)
async def test_the_flag_of_the_guide_is_what_lets_claude_code_call_the_tools(
    claude, place, allowed, children
):
    guide = (ROOT / "docs" / "claude-code.md").read_text(encoding="utf-8")
    assert "--allowedTools mcp__prsm" in guide
    place.script(w1=[{"say": "done"}])
    scenario = master({"call": call("spawn_child", name="w1", prompt="Work.")}, {"say": "Ended."})
    script = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
    async with ModelServer(scenario) as server:
        await lead(claude, place, server, server_entry(place, *script), allowed=allowed)
        [*_, last] = server.requests
    assert ("haven't granted it yet" in str(last.body)) is not bool(children)
    await ended(place)
    assert sorted(await place.states()) == ["master", *children]


async def test_without_a_user_claude_code_dismisses_what_it_is_asked(claude, place):
    place.script(maker=[{"shell": {"id": "made", "cmd": "make it"}}, {"say": "${made.reason}"}])
    scenario = master(
        {"call": call("spawn_child", name="maker", prompt="Make.")},
        {"call": call("wait_for_message")},
        {"say": "The child says: ${wait_for_message.summary}"},
    )
    script = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
    async with ModelServer(scenario) as server:
        entry = server_entry(place, *script, "--unattended", "2")
        answer = await lead(claude, place, server, entry)
    assert "nobody was attached" in answer["result"]
    await ended(place)
    [resolved] = await place.events("permission_resolved")
    assert (resolved["verdict"], resolved["by"]) == ("deny", "unattended")


async def ended(place):
    """Wait until `prsm mcp` has written the end of its run: the CLI does not wait for it."""
    async with asyncio.timeout(DEADLINE_S):
        while not await place.events("run_finished"):
            pass


async def test_a_wait_is_answered_before_the_limit_that_claude_code_is_given(claude, place):
    place.script(w1=[{"delay": 8, "say": "slow"}])
    scenario = master(
        {"call": call("spawn_child", name="w1", prompt="Be slow.")},
        {"call": {**call("wait_for_message"), "id": "first"}},
        {
            "expect": ['"type":"pending"'],
            "call": {**call("wait_for_message"), "arguments": {"token": "${first.token}"}},
        },
        {"say": "The child was ${wait_for_message.summary}."},
    )
    script = ("--provider", "script", "--set", f"providers.script.scenario={place.scenario}")
    async with ModelServer(scenario) as server:
        answer = await lead(
            claude, place, server, server_entry(place, *script), MCP_TOOL_TIMEOUT="5000"
        )
        assert server.failures == []
    assert answer["result"] == "The child was slow."


@pytest.mark.requirement("D7")
async def test_claude_code_leads_a_real_codex_child(claude, codex, place):
    scenario = master(
        {"call": call("spawn_child", name="w1", prompt="[[lane:codex]] Count the files.")},
        {"call": {**call("wait_for_message"), "id": "told"}},
        {"say": "Codex says ${told.summary}."},
    )
    scenario["lanes"]["codex"] = {
        "steps": [{"call": call("task_complete", summary="three")}, {"hang": True}]
    }
    place.env |= {"PRSM_PLUGINS": "codex", "LIVE_TEST_KEY": "loopback"}
    async with ModelServer(scenario) as server:
        sets = {
            "providers.codex.command": json.dumps([codex]),
            "providers.codex.base_url": server.base_url,
            "providers.codex.api_key_env": "LIVE_TEST_KEY",
            "defaults.model": "scripted-1",
        }
        flags = [part for key, value in sets.items() for part in ("--set", f"{key}={value}")]
        entry = server_entry(place, "--provider", "codex", *flags)
        answer = await lead(claude, place, server, entry)
        assert server.failures == []
    assert answer["result"] == "Codex says three."
    await ended(place)
    assert await place.states() == {"master": "completed", "w1": "completed"}
