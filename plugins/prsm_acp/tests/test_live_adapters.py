"""The generic provider with the ACP adapters of Claude Code and Codex, as npm installs them."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager

import pytest
from prsm_acp.config import AcpConfig
from prsm_acp.manifests import find_manifest
from prsm_acp.provider import AcpProvider
from prsm_testing.doubles import RecordingHost, answers, completes, only, open_services, run_turn
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_scene import Scene, Stage, call, reason

from plugins.prsm_acp.tests.real_agents import program
from prsm_core.domain.permissions import Deny
from prsm_core.domain.turns import AssistantMessage, StopReason, ToolCallFinished, ToolCallStarted
from tests.person import room

pytestmark = pytest.mark.live

COMMAND = "echo hi > made.txt && cat made.txt"
PROMPT = "Do the work."
ASIDE = {"marker": "", "steps": [{"say": "A title"}] * 3}  # what a CLI asks on its own account
CODEX_HOME = """
model = "scripted-1"
model_provider = "loopback"
[model_providers.loopback]
name = "loopback"
base_url = "{url}"
env_key = "LOOPBACK_KEY"
wire_api = "responses"
"""


@pytest.fixture(params=["claude-agent-acp", "codex-acp"])
def agent(request):
    return request.param


@pytest.fixture
def scene(agent, tmp_path, monkeypatch):
    """Opens the real adapter with a home of its own; its model plays the steps."""
    monkeypatch.setenv("LOOPBACK_KEY", "secret-loopback-key")
    home = room()
    home.mkdir(parents=True)

    @asynccontextmanager
    async def opened(*steps):
        cwd = tmp_path / "work"
        cwd.mkdir(exist_ok=True)
        lanes = {"agent": {"marker": PROMPT, "steps": list(steps)}, "aside": ASIDE}
        scenario = {"lanes": lanes}
        async with ModelServer(scenario) as server, open_services(home / "state") as services:
            settings = {"agent": agent, "command": [program(agent)], "api_key_env": "LOOPBACK_KEY"}
            if agent == "codex-acp":
                (home / "config.toml").write_text(CODEX_HOME.format(url=server.base_url))
                settings["env"] = {"CODEX_HOME": str(home), "LOOPBACK_KEY": "secret-loopback-key"}
            else:
                settings["base_url"] = server.root_url
                settings["env"] = {"CLAUDE_CONFIG_DIR": str(home), "HOME": str(home)}
            config = AcpConfig.from_settings(settings)
            provider = AcpProvider(config, find_manifest(agent), services)
            stage = Stage(model=server, settings=settings)
            try:
                yield Scene(provider=provider, services=services, stage=stage, cwd=cwd)
            finally:
                await provider.aclose()
            assert services.live == []
            assert server.failures == []

    yield opened
    shutil.rmtree(home, ignore_errors=True)


async def test_a_turn_with_an_orchestration_tool_and_a_command(scene, agent):
    host = RecordingHost(note=answers("it was noted"), task_complete=completes)
    place = {"namespace": "mcp__prsm"} if agent == "codex-acp" else {}
    steps = (
        {"say": "Working.", "call": {**call("note", "n", text="x y"), **place}},
        {"shell": "echo hi | cat"},
        {"call": {**call("task_complete", "d", text="all"), **place}},
        {"say": "it is never asked for this"},
    )
    async with scene(*steps) as played, played.session(host, model="default") as opened:
        events = await run_turn(opened, PROMPT)
        assert played.outputs("n")[0].endswith("it was noted")
    assert [asked.name for asked in host.calls] == ["note", "task_complete"]
    (started,) = only(ToolCallStarted, events)
    assert (started.tool, started.arguments["command"]) == ("Bash", "echo hi | cat")
    (ended,) = only(ToolCallFinished, events)
    assert ended.status == "completed"
    assert agent == "codex-acp" or "hi" in str(ended.result), (
        "the one that tells a command's output"
    )
    assert {asked.command for asked in host.requests} <= {"echo hi | cat"}
    assert [message.text for message in only(AssistantMessage, events)] == ["Working."]
    assert reason(events) is StopReason.END_TURN


async def test_a_command_that_is_refused_changes_nothing(scene, agent):
    """Codex runs it in a sandbox that can write nothing, and asks for what wants to leave that."""
    host = RecordingHost(verdict=lambda _: Deny("no"))
    async with scene({"shell": COMMAND}, {"say": "done"}) as played:
        async with played.session(host, model="default") as opened:
            events = await run_turn(opened, PROMPT)
        assert list(played.cwd.iterdir()) == []
    (ended,) = only(ToolCallFinished, events)
    assert ended.status == ("failed" if agent == "codex-acp" else "denied")
