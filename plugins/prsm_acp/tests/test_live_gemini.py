"""The generic provider with a real ACP agent: `gemini --acp` in front of a loopback model."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager

import pytest
from prsm_acp.config import AcpConfig
from prsm_acp.manifests import find_manifest
from prsm_acp.provider import AcpProvider
from prsm_testing.doubles import (
    RecordingHost,
    answers,
    completes,
    only,
    open_services,
    run_turn,
    until,
)
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_scene import Scene, Stage, call, error, failure, reason

from prsm_core.domain.permissions import Allow, Deny
from prsm_core.domain.turns import (
    AssistantMessage,
    ErrorKind,
    StopReason,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
)
from tests.person import room

pytestmark = pytest.mark.live

NEW_FILE = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch"
COMMAND = "echo hi > made.txt && cat made.txt"


@pytest.fixture
def scene(gemini, tmp_path, monkeypatch):
    """Opens the real Gemini with a home of its own; its model plays the steps."""
    monkeypatch.setenv("LOOPBACK_KEY", "secret-loopback-key")
    home = room()
    home.mkdir(parents=True)

    @asynccontextmanager
    async def opened(*steps):
        cwd = tmp_path / "work"
        cwd.mkdir(exist_ok=True)
        scenario = {"lanes": {"agent": {"marker": "", "steps": list(steps)}}}
        async with ModelServer(scenario) as server, open_services(home / "state") as services:
            settings = {
                "agent": "gemini",
                "command": [gemini, "--acp"],
                "base_url": server.root_url,
                "api_key_env": "LOOPBACK_KEY",
                "env": {"GEMINI_CLI_HOME": str(home)},
            }
            config = AcpConfig.from_settings(settings)
            provider = AcpProvider(config, find_manifest("gemini"), services)
            stage = Stage(model=server, settings=settings)
            try:
                yield Scene(provider=provider, services=services, stage=stage, cwd=cwd)
            finally:
                await provider.aclose()
            assert services.live == []
            assert server.failures == []

    yield opened
    shutil.rmtree(home, ignore_errors=True)


def session(played, host=None, **changes):
    return played.session(host, model="gemini-2.5-pro", **changes)


@pytest.mark.requirement("R27")
async def test_turns_with_calls_of_all_kinds(scene):
    host = RecordingHost(note=answers("it was noted"), task_complete=completes)
    steps = (
        {"think": "I think.", "say": "Working.", "call": call("note", "n", text="x y")},
        {"shell": COMMAND},
        {"patch": NEW_FILE},
        {"call": call("task_complete", "d", text="all")},
        {"say": "it is never asked for this"},
    )
    async with scene(*steps) as played, session(played, host) as opened:
        first = await run_turn(opened, "Do it.")
        assert not opened.reusable
        assert played.outputs("n") == ["it was noted"]
        assert played.times("You are w1.") == 1
        assert (played.cwd / "new.txt").read_text() == "hello\n"
        assert (played.cwd / "made.txt").read_text() == "hi\n"
        path = str(played.cwd / "new.txt")
        assert len(played.stage.model.requests) == 4
    assert [asked.name for asked in host.calls] == ["note", "task_complete"]
    started = only(ToolCallStarted, first)
    assert [(begun.tool, begun.arguments.get("command")) for begun in started] == [
        ("Bash", COMMAND),
        ("Read", None),  # Gemini reads a file before it writes it, and tells of no call
        ("Write", None),
    ]
    assert [ended.status for ended in only(ToolCallFinished, first)] == ["completed"] * 3
    assert [message.text for message in only(AssistantMessage, first)] == ["Working."]
    assert "I" in (only(AssistantMessage, first)[0].thinking or "")
    assert sum(report.usage.input_tokens or 0 for report in only(UsageReported, first)) == 400
    changing = [asked for asked in host.requests if asked.tool != "Read"]
    assert [(asked.tool, asked.paths) for asked in changing] == [("Bash", ()), ("Write", (path,))]
    assert reason(first) is StopReason.END_TURN


async def test_what_is_refused_does_not_happen(scene):
    host = RecordingHost(verdict=lambda asked: Allow() if asked.tool == "Read" else Deny("no"))
    steps = ({"shell": COMMAND}, {"patch": NEW_FILE}, {"say": "done"})
    async with scene(*steps) as played, session(played, host) as opened:
        events = await run_turn(opened, "Do it.")
        assert list(played.cwd.iterdir()) == []
    tools = {begun.call_id: begun.tool for begun in only(ToolCallStarted, events)}
    ended = [(tools[one.call_id], one.status) for one in only(ToolCallFinished, events)]
    assert ended == [("Bash", "denied"), ("Read", "completed"), ("Write", "denied")]


async def test_a_cancel_ends_the_turn_and_the_process(scene):
    async with scene({"say": "a b", "hang": True}) as played, session(played) as opened:
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(run_turn(opened, "Hello."))
            await played.stage.model.wait_for_requests(1)
            async with asyncio.timeout(5):
                await opened.interrupt()
        assert reason(turn.result()) is StopReason.ABORTED
        assert not opened.reusable
        await until(lambda: not played.services.live)


async def test_a_refused_key_is_told_as_such(scene):
    async with scene(failure(401)) as played, session(played) as opened:
        events = await run_turn(opened, "Hello.")
    assert (error(events).kind, error(events).retryable) == (ErrorKind.AUTH_FAILURE, False)


async def test_its_models_are_listed(scene):
    async with scene() as played:
        models = {model.model_id for model in await played.provider.list_models()}
        assert list(played.stage.model.requests) == []
    assert "gemini-2.5-pro" in models
