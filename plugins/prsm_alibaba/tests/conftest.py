"""The key of the vendor, and the real programs where there are some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.person import empty_home  # noqa: F401 - of every live test

KEY = "secret-loopback-key"


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("DASHSCOPE_API_KEY", KEY)


@pytest.fixture(scope="session")
def codex() -> str:
    """Return the path of the real Codex."""
    path = os.environ.get("PRSM_LIVE_CODEX", "")
    if not Path(path).is_file():
        pytest.skip("the codex CLI is not installed: npm is missing or cannot reach its registry")
    return path


@pytest.fixture(scope="session")
def claude() -> str:
    """Return the path of the real Claude Code."""
    sdk = pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    path = Path(sdk.__file__).parent / "_bundled" / "claude"
    if not path.is_file():
        pytest.skip("the claude CLI is not there: this claude-agent-sdk comes without it")
    return str(path)
