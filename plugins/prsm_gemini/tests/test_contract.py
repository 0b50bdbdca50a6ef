"""The contract of providers, met by Gemini: the real program, and the small one of these tests."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from prsm_gemini.provider import build
from prsm_testing.doubles import RecordingHost, answers, only, run_turn
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_contract import COMMAND, HarmlessContract, Stage
from prsm_testing.provider_scene import call, error, failure, reason

from prsm_core.domain.permissions import Allow, Deny
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import ErrorKind, StopReason, ToolCallFinished, ToolCallStarted

FAKE = [sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_gemini.py"))]


class GeminiContract(HarmlessContract):
    command: ClassVar[list[str]] = FAKE
    backend: ClassVar[str] = "headless"
    tells_steps = False

    def build(self, settings, services):
        return build(settings, services)

    @asynccontextmanager
    async def play(self, scenario):
        async with ModelServer(scenario) as server:
            settings = {
                "backend": self.backend,
                "command": self.command,
                "base_url": server.root_url,
                "api_key_env": "LOOPBACK_KEY",
            }
            yield Stage(model=server, settings=settings)

    async def test_an_orchestration_call_reaches_the_host_and_its_answer_the_model(
        self, open_scene
    ):
        """Name and arguments arrive; MCP does not carry the model's call id."""
        host = RecordingHost(note=answers("it was noted"))
        async with (
            open_scene({"call": call("note", "n", text="x y")}, {"say": "done"}) as scene,
            scene.session(host) as session,
        ):
            events = await run_turn(session, "Note it.")
            assert scene.outputs("n") == ["it was noted"]
        (asked,) = host.calls
        assert (asked.name, asked.arguments) == ("note", {"text": "x y"})
        assert only(ToolCallStarted, events) == []
        assert only(ToolCallFinished, events) == []
        assert reason(events) is StopReason.END_TURN


@pytest.mark.requirement("E14", "E71")
class TestFakeGeminiHeadless(GeminiContract):
    pass


@pytest.mark.live
@pytest.mark.requirement("E14", "E71")
class TestRealGeminiHeadless(GeminiContract):
    @pytest.fixture(autouse=True)
    def _real(self, binary):
        type(self).command = [binary]


@pytest.mark.live
@pytest.mark.requirement("E14")
class TestRealGeminiAcp(GeminiContract):
    backend = "acp"

    @pytest.fixture(autouse=True)
    def _real(self, binary):
        type(self).command = [binary]

    async def test_two_calls_of_one_response_are_open_at_the_same_time(self, open_scene):
        """They are not: over ACP Gemini runs the calls of a response one after the other."""
        running = []

        async def note(text: str) -> ToolOutcome:
            running.append(f"begin {text}")
            running.append(f"end {text}")
            return ToolOutcome(text=text)

        calls = [call("note", name, text=name) for name in ("first", "second")]
        async with (
            open_scene({"call": calls}, {"say": "done"}) as scene,
            scene.session(RecordingHost(note=note)) as session,
        ):
            await run_turn(session, "Note both.")
            assert scene.outputs("second") == ["second"]
        assert running == ["begin first", "end first", "begin second", "end second"]

    @pytest.mark.parametrize("allowed", [True, False])
    async def test_a_command_runs_only_when_it_is_allowed(self, open_scene, allowed):
        """Over ACP Gemini does not tell what a command printed."""
        host = RecordingHost(verdict=lambda _: Allow() if allowed else Deny("not in here"))
        async with (
            open_scene({"shell": COMMAND}, {"say": "done"}) as scene,
            scene.session(host) as session,
        ):
            events = await run_turn(session, "Make it.")
            assert (scene.cwd / "made.txt").exists() is allowed
        (asked,) = host.requests
        assert (asked.tool, asked.command, asked.cwd) == ("Bash", COMMAND, str(scene.cwd))
        (started,) = only(ToolCallStarted, events)
        (finished,) = only(ToolCallFinished, events)
        assert (started.tool, started.arguments["command"]) == ("Bash", COMMAND)
        assert finished.call_id == started.call_id
        assert finished.status == ("completed" if allowed else "denied")

    async def test_after_a_rate_limit_the_turn_goes_on_and_the_model_sees_the_prompt_once(
        self, open_scene
    ):
        """A failed prompt is lost over ACP: a new session is given it with the history."""
        busy = failure(429, code="rate_limit_exceeded", times=1)
        async with open_scene(busy, {"say": "done"}) as scene:
            async with scene.session() as session:
                first = await run_turn(session, "Only once.")
                assert not session.reusable
            async with scene.session() as session:
                second = await run_turn(session, None, ("user", "Only once."))
            assert scene.times("Only once.") == 1
            assert len(scene.stage.model.requests) == 2, "the engine retries, not the vendor"
        assert (error(first).kind, error(first).retryable) == (ErrorKind.RATE_LIMIT, True)
        assert reason(second) is StopReason.END_TURN
