"""The contract of providers, met over ACP by the small agent of these tests."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from prsm_testing.doubles import RecordingHost, answers, only, run_turn
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_contract import HarmlessContract, Stage
from prsm_testing.provider_scene import call, reason

from plugins.prsm_acp.tests.fake_manifest import FAKE, build_fake
from prsm_core.domain.turns import StopReason, ToolCallStarted


class AcpContract(HarmlessContract):
    def build(self, settings, services):
        return build_fake(settings, services)

    @asynccontextmanager
    async def play(self, scenario):
        async with ModelServer(scenario) as server:
            settings = {"command": list(FAKE), "base_url": server.base_url}
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
        assert reason(events) is StopReason.END_TURN


@pytest.mark.requirement("R27")
class TestAgentThatIsRebuilt(AcpContract):
    pass


@pytest.mark.requirement("R27")
class TestAgentThatLoads(AcpContract):
    def build(self, settings, services):
        return build_fake(settings, services, loads=True)
