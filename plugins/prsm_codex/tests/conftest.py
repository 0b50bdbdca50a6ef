"""The real Codex, where there is one, in front of a loopback model server."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prsm_codex.provider import build

from plugins.prsm_codex.tests.real_codex import KEY, Live, open_live
from tests.person import (
    empty_home,  # noqa: F401 - of every live test
    room,
)


@pytest.fixture(scope="session")
def binary() -> str:
    """Return the path of the real Codex."""
    path = os.environ.get("PRSM_LIVE_CODEX", "")
    if not Path(path).is_file():
        pytest.skip("the codex CLI is not installed: npm is missing or cannot reach its registry")
    return path


@pytest.fixture
def state_dir():
    """A folder outside the temp directory, as the engine gives one."""
    path = room()
    path.mkdir(parents=True)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def codex(binary, state_dir, monkeypatch, tmp_path):
    """Opens a model server that plays steps, and a provider that uses it."""
    monkeypatch.setenv("LOOPBACK_KEY", KEY)

    @asynccontextmanager
    async def opened(*steps, make=build, **lanes):
        scenario = {"lanes": {**lanes, "w1": {"marker": "", "steps": list(steps)}}}
        live: Live
        async with open_live(binary, scenario, state_dir, tmp_path, make) as live:
            yield live

    return opened
