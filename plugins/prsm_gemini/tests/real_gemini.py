"""The real Gemini CLI in front of a scripted model, by either backend."""

from __future__ import annotations

from contextlib import asynccontextmanager

from prsm_gemini.provider import build
from prsm_testing.doubles import open_services
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_scene import Scene, Stage


@asynccontextmanager
async def open_real(binary, tmp_path, backend, *steps):
    """Yield a scene whose model plays the steps; leaving it checks what is left."""
    cwd = tmp_path / "work"
    cwd.mkdir(exist_ok=True)
    scenario = {"lanes": {"agent": {"marker": "", "steps": list(steps)}}}
    async with ModelServer(scenario) as server, open_services(tmp_path / "state") as services:
        settings = {
            "backend": backend,
            "command": [binary],
            "base_url": server.root_url,
            "api_key_env": "LOOPBACK_KEY",
        }
        provider = build(settings, services)
        stage = Stage(model=server, settings=settings)
        try:
            yield Scene(provider=provider, services=services, stage=stage, cwd=cwd)
        finally:
            await provider.aclose()
        assert services.live == []
        assert server.failures == []


def offered(scene):
    """Return the names of the tools that the last request offers."""
    body = scene.stage.model.requests[-1].body
    return {f["name"] for tool in body["tools"] for f in tool["functionDeclarations"]}
