"""The small agent in front of a scripted model, and the real Gemini CLI, where there is one."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from prsm_acp.config import AcpConfig
from prsm_testing.doubles import open_services
from prsm_testing.model_server import ModelServer
from prsm_testing.provider_scene import Scene, Stage

from plugins.prsm_acp.tests.fake_manifest import FAKE, MANIFEST, FakeProvider
from tests.person import empty_home  # noqa: F401 - of every live test


@pytest.fixture
def scene(tmp_path):
    """Opens the small agent in front of a model that plays the steps."""

    @asynccontextmanager
    async def opened(*steps, fault=None, settings=(), manifest=MANIFEST, clock=None, **quirks):
        cwd = tmp_path / "work"
        cwd.mkdir(exist_ok=True)
        marks = tmp_path / "marks"
        marks.mkdir(exist_ok=True)
        command = [*FAKE, *([f"--fault={fault}", f"--marks={marks}"] if fault else [])]
        known = replace(manifest, quirks=replace(manifest.quirks, **quirks))
        scenario = {"lanes": {"agent": {"marker": "", "steps": list(steps)}}}
        async with (
            ModelServer(scenario) as server,
            open_services(tmp_path / "state", clock=clock) as services,
        ):
            given = {"command": command, "base_url": server.base_url, **dict(settings)}
            provider = FakeProvider(AcpConfig.from_settings(given), known, services)
            stage = Stage(model=server, settings=given)
            try:
                yield Scene(provider=provider, services=services, stage=stage, cwd=cwd)
            finally:
                await provider.aclose()
            assert services.live == []
            assert server.failures == []

    return opened


@pytest.fixture(scope="session")
def gemini() -> str:
    """Return the path of the real Gemini CLI."""
    path = os.environ.get("PRSM_LIVE_GEMINI", "")
    if not Path(path).is_file():
        pytest.skip("the gemini CLI is not installed: npm is missing or cannot reach its registry")
    return path
