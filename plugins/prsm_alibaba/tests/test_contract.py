"""The contract of providers, met by the preset over each of its backends."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from prsm_alibaba.provider import build

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.turns import AssistantMessage, StopReason
from prsm_core.testing.doubles import (
    RecordingHost,
    answers,
    only,
    open_services,
    run_turn,
    session_request,
)
from prsm_core.testing.model_server import ModelServer
from prsm_core.testing.provider_contract import ProviderContract, Stage
from prsm_core.testing.provider_scene import call

# A program beside this plugin: it is run, not imported.
FAKE = Path(__file__).parents[2] / "prsm_codex" / "tests" / "fake_codex.py"


class AlibabaContract(ProviderContract):
    """By the settings of `backend`, whose base URL is replaced by the scripted model's."""

    backend: ClassVar[dict[str, Any]]
    speaks_responses: ClassVar[bool] = True  # else it speaks what Claude Code does

    def build(self, settings, services):
        return build(settings, services)

    @asynccontextmanager
    async def play(self, scenario):
        async with ModelServer(scenario) as server:
            url = server.base_url if self.speaks_responses else server.root_url
            yield Stage(model=server, settings={"base_url": url, **self.backend})


@pytest.mark.skipif(not FAKE.exists(), reason="prsm_codex and its small app-server are not here")
class TestFakeCodex(AlibabaContract):
    backend: ClassVar = {"backend": "codex", "command": [sys.executable, "-I", "-S", str(FAKE)]}


@pytest.mark.live
class TestRealCodex(AlibabaContract):
    @pytest.fixture(autouse=True)
    def _real(self, codex):
        type(self).backend = {"backend": "codex", "command": [codex]}

    @pytest.mark.requirement("E73")
    async def test_the_vendor_is_sent_plain_functions_its_model_and_its_key(self, open_scene):
        """What another vendor's server may not understand is left out."""
        host = RecordingHost(note=answers("noted"))
        note = {"call": call("note", "n", text="x")}
        async with (
            open_scene(note, {"shell": "echo hi"}, {"say": "done"}) as scene,
            scene.session(host, role=AgentRole.WORKER, model="default") as session,
        ):
            events = await run_turn(session, "Work.")
            requests = scene.stage.model.requests
        assert events[-1].stop_reason is StopReason.END_TURN
        assert [asked.name for asked in host.calls] == ["note"]
        assert [asked.command for asked in host.requests] == ["echo hi"]
        for request in requests:
            assert request.body["model"] == "qwen3.7-max"
            assert {tool["type"] for tool in request.body["tools"]} == {"function"}
            assert "authorization" in request.headers


@pytest.mark.live
class TestRealCodingPlan(AlibabaContract):
    speaks_responses = False

    @pytest.fixture(autouse=True)
    def _real(self, claude, tmp_path):
        # The CLI sources the profile of the user's shell before every command.
        env = {"HOME": str(tmp_path)}
        type(self).backend = {"plan": "coding", "command": [claude], "env": env}


@pytest.mark.live
@pytest.mark.requirement("E73")
async def test_a_master_runs_on_claude_code_and_its_worker_on_codex(tmp_path, claude, codex):
    lanes = {name: {"steps": [{"say": f"I am the {name}"}]} for name in ("master", "worker")}
    async with ModelServer({"lanes": lanes}) as server, open_services(tmp_path / "s") as services:
        settings = {
            "codex": {"command": [codex], "base_url": server.base_url},
            "claude": {"command": [claude], "base_url": server.root_url},
            "env": {"HOME": str(tmp_path)},
        }
        provider = build(settings, services)
        for role in (AgentRole.MASTER, AgentRole.WORKER):
            name = role.name.lower()
            request = session_request(tmp_path, role=role, model="default", name=name)
            async with provider.open_session(request, RecordingHost()) as session:
                events = await run_turn(session, f"[[lane:{name}]] Who are you?")
            assert [m.text for m in only(AssistantMessage, events)] == [f"I am the {name}"]
        status = await provider.probe()
        await provider.aclose()
    assert status.available
    paths = [request.path for request in server.requests]
    assert paths[0].endswith("/messages")
    assert paths[-1].endswith("/responses")
    assert {request.body["model"] for request in server.requests} == {"qwen3.7-max"}
