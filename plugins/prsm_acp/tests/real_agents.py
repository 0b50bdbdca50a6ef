"""The real agents that npm installs, in front of a loopback model, with homes of their own."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from prsm_acp.config import AcpConfig
from prsm_acp.manifests import find_manifest
from prsm_acp.provider import AcpProvider, manifest_of
from prsm_testing.doubles import open_services
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_scene import Scene, Stage, call

from tests.person import room

BASE_URL = "(the model server's)"
KEY = "secret-loopback-key"
ORCHESTRATION = {"note", "meet", "wait", "task_complete"}


def program(name):
    """Return the path of a program in one of the folders of PRSM_LIVE_ACP; skip without it."""
    folders = os.environ.get("PRSM_LIVE_ACP", "").split(os.pathsep)
    found = [path for folder in folders if (path := Path(folder, name)).is_file()]
    if not found:
        pytest.skip(f"{name} is not installed, or PRSM_LIVE_ACP does not name its folder")
    return str(found[0])


class NamedProvider(AcpProvider):
    """Names the scripted model as the agent does."""

    def open_session(self, request, host):
        if self.manifest.needs_model and request.model.startswith("scripted"):
            request = replace(request, model=f"anthropic/{request.model}")
        return super().open_session(request, host)


def build(settings, services):
    """Build the provider of a real agent."""
    config = AcpConfig.from_settings(settings)
    return NamedProvider(config, manifest_of(config), services)


@contextmanager
def private_home():
    """Yield a folder that is no temporary one: agents treat those in ways of their own."""
    home = room()
    home.mkdir(parents=True)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def settings_of(agent, server, home):
    """Return the provider's settings that lead an agent to the model server."""
    manifest = find_manifest(agent)
    env = {"HOME": str(home)}
    if agent == "qwen":
        env["ANTHROPIC_BASE_URL"] = server.root_url
        env |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": "scripted-1"}
    if agent == "copilot":
        env["COPILOT_OFFLINE"] = "true"
        env |= {"COPILOT_PROVIDER_TYPE": "anthropic", "COPILOT_PROVIDER_API_KEY": KEY}
        env["COPILOT_PROVIDER_BASE_URL"] = server.root_url
    if agent == "opencode":
        options = {"baseURL": server.base_url, "apiKey": KEY}
        provider = {"options": options, "models": {"scripted-1": {}, "scripted-2": {}}}
        content = {"enabled_providers": ["anthropic"], "provider": {"anthropic": provider}}
        env["OPENCODE_CONFIG_CONTENT"] = json.dumps(content)
    command = [program(manifest.command[0]), *manifest.command[1:]]
    return {"agent": agent, "command": command, "env": env}


def shell(agent, command):
    """Return the call of an agent's own shell."""
    if agent == "qwen":
        return call("run_shell_command", "shell", command=command, is_background=False)
    return call("bash", "shell", command=command, description="Works.")


def translated(agent, step):
    """Return a step with the names that an agent gives its tools."""
    if "shell" in step:
        return {"call": shell(agent, step["shell"])}
    calls = step.get("call")
    if calls is None or agent == "qwen":  # whose names the model server knows
        return step
    listed = calls if isinstance(calls, list) else [calls]
    mark = {"copilot": "-", "opencode": "_"}[agent]
    named = [
        {**one, "tool": f"prsm{mark}{one['tool']}"} if one["tool"] in ORCHESTRATION else one
        for one in listed
    ]
    return {**step, "call": named}


@asynccontextmanager
async def open_stage(agent, scenario):
    """Open a model that plays the scenario to an agent; yield the stage."""
    lanes = {
        name: {**lane, "steps": [translated(agent, step) for step in lane["steps"]]}
        for name, lane in scenario["lanes"].items()
    }
    with private_home() as home:
        async with ModelServer({"lanes": lanes}) as server:
            yield Stage(model=server, settings=settings_of(agent, server, home))


@asynccontextmanager
async def open_real(agent, tmp_path, *steps, **settings):
    """Open a real agent whose model plays the steps; `env` of the settings is added."""
    cwd = tmp_path / "work"
    cwd.mkdir(exist_ok=True)
    scenario = {"lanes": {"agent": {"marker": "", "steps": list(steps)}}}
    async with open_stage(agent, scenario) as stage, open_services(tmp_path / "state") as services:
        env = {**stage.settings["env"], **settings.pop("env", {})}
        given = {**stage.settings, **settings, "env": env}
        if given.get("base_url") == BASE_URL:
            given["base_url"] = stage.model.base_url
        provider = build(given, services)
        stage = dataclasses.replace(stage, settings=given)
        try:
            yield Scene(provider=provider, services=services, stage=stage, cwd=cwd)
        finally:
            await provider.aclose()
        assert services.live == []
        assert stage.model.failures == []
