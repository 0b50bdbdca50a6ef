"""What the preset of another vendor proves: the contract over each of its backends, and its model.

A plugin derives from `VendorContract` once for each backend; `as_master_and_worker` plays both.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from prsm_testing.doubles import (
    RecordingHost,
    answers,
    only,
    open_services,
    run_turn,
    session_request,
)
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_contract import HarmlessContract, Stage
from prsm_testing.provider_scene import call

from prsm_core.domain.agents import AgentRole
from prsm_core.domain.turns import AssistantMessage, StopReason

_FAKE = Path(__file__).with_name("fake_codex.py")
SMALL_CODEX = (sys.executable, "-I", "-S", str(_FAKE))


class VendorContract(HarmlessContract):
    """By the settings of `backend`, whose base URL is replaced by the scripted model's."""

    backend: ClassVar[dict[str, Any]]
    speaks_responses: ClassVar[bool] = True  # else it speaks what Claude Code does

    @asynccontextmanager
    async def play(self, scenario):
        async with ModelServer(scenario) as server:
            url = server.base_url if self.speaks_responses else server.root_url
            yield Stage(model=server, settings={"base_url": url, **self.backend})


async def sends_plain_functions(open_scene, model):
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
        assert request.body["model"] == model
        assert {tool["type"] for tool in request.body["tools"]} == {"function"}
        assert "authorization" in request.headers


async def as_master_and_worker(build, tmp_path, claude, codex, model):
    """A master runs on Claude Code, and its worker on Codex."""
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
    assert {request.body["model"] for request in server.requests} == {model}
