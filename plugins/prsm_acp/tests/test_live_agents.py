"""Qwen Code, OpenCode and Copilot as npm installs them: the contract of providers."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from prsm_testing.doubles import RecordingHost, answers, only, run_turn
from prsm_testing.provider_scene import call, error, failure, reason

from plugins.prsm_acp.tests.real_agents import build, open_stage
from plugins.prsm_acp.tests.test_contract import AcpContract
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import ErrorKind, StopReason, UsageReported

pytestmark = pytest.mark.live


class AgentContract(AcpContract):
    agent = ""

    def build(self, settings, services):
        return build(settings, services)

    @asynccontextmanager
    async def play(self, scenario):
        async with open_stage(self.agent, scenario) as stage:
            yield stage

    async def test_after_a_rate_limit_the_turn_goes_on_and_the_model_sees_the_prompt_once(
        self, open_scene
    ):
        """The agent tries again by itself, and cannot be told not to."""
        steps = (failure(429, code="rate_limit_exceeded"), failure(500), {"say": "done"})
        async with open_scene(*steps) as scene, scene.session() as session:
            events = await run_turn(session, "Only once.")
            assert len(scene.stage.model.requests) == 3
            assert scene.times("Only once.") == 1
        assert reason(events) is StopReason.END_TURN


@pytest.mark.requirement("R27")
class TestQwen(AgentContract):
    agent = "qwen"

    async def test_two_calls_of_one_response_are_open_at_the_same_time(self, open_scene):
        """They are not: it runs the calls of a response one after the other."""
        running = []

        async def note(text):
            running.append(f"begin {text}")
            running.append(f"end {text}")
            return ToolOutcome(text=text)

        calls = [call("note", name, text=name) for name in ("first", "second")]
        async with (
            open_scene({"call": calls}, {"say": "done"}) as scene,
            scene.session(RecordingHost(note=note)) as session,
        ):
            await run_turn(session, "Note both.")
        assert running == ["begin first", "end first", "begin second", "end second"]


@pytest.mark.requirement("R27")
class TestOpenCode(AgentContract):
    agent = "opencode"

    async def test_usage_is_told_in_differences_that_add_up(self, open_scene):
        """It tells the last response of a turn alone."""
        usage = [{"input_tokens": 100 * n, "output_tokens": n} for n in (1, 2, 3)]
        steps = (
            {"call": call("note", "n", text="x"), "usage": usage[0]},
            {"say": "done", "usage": usage[1]},
            {"say": "more", "usage": usage[2]},
        )
        host = RecordingHost(note=answers("noted"))
        async with open_scene(*steps) as scene, scene.session(host) as session:
            turns = [only(UsageReported, await run_turn(session, "Go on.")) for _ in range(2)]
        told = [sum(report.usage.input_tokens or 0 for report in turn) for turn in turns]
        assert told == [200, 300]

    async def test_a_refused_login_is_not_tried_again(self, open_scene):
        """Its kind is in the vendor's words: the status is not told."""
        refused = failure(401, message="invalid x-api-key")
        async with open_scene(refused) as scene, scene.session() as session:
            events = await run_turn(session, "Hello.")
            assert len(scene.stage.model.requests) == 1
        assert (error(events).kind, error(events).retryable) == (ErrorKind.AUTH_FAILURE, False)


@pytest.mark.requirement("R27")
class TestCopilot(AgentContract):
    agent = "copilot"

    async def test_a_refused_login_is_not_tried_again(self, open_scene):
        """It is, a few times, and its answer says that all is well; its words tell the failure."""
        async with open_scene(failure(401, times=3)) as scene, scene.session() as session:
            events = await run_turn(session, "Hello.")
            assert not session.reusable
        assert (error(events).kind, error(events).retryable) == (ErrorKind.AUTH_FAILURE, False)
