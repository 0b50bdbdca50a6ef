"""A provider whose CLI is the small one of these tests, the real one, or both in turn."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prsm_claude.config import ClaudeConfig
from prsm_claude.provider import program

from plugins.prsm_claude.tests.stage import KEY, Played, open_stage
from tests.person import empty_home  # noqa: F401 - of every live test

FAKE = [sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_claude.py"))]


@pytest.fixture(scope="session")
def binary() -> str:
    """Return the path of the real CLI."""
    (path,) = program(ClaudeConfig())
    if not Path(path).is_absolute():
        pytest.skip("the claude CLI is not there: this claude-agent-sdk comes without it")
    return path


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.live)])
def command(request) -> list[str]:
    """Return the command of a CLI: a test that takes it runs with both."""
    return FAKE if request.param == "fake" else [request.getfixturevalue("binary")]


@pytest.fixture
def claude(command, monkeypatch, tmp_path):
    """Opens a model server that plays steps, and a provider that uses it."""
    return opener(command, monkeypatch, tmp_path)


@pytest.fixture
def real_claude(binary, monkeypatch, tmp_path):
    """The same with the real CLI only."""
    return opener([binary], monkeypatch, tmp_path)


def opener(command, monkeypatch, folder):
    monkeypatch.setenv("LOOPBACK_KEY", KEY)

    @asynccontextmanager
    async def opened(*steps, **settings):
        scenario = {"lanes": {"w1": {"marker": "", "steps": list(steps)}}}
        stage: Played
        async with open_stage(command, scenario, folder, **settings) as stage:
            yield stage

    return opened
