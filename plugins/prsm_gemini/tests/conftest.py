"""The real Gemini CLI, where there is one, in front of a loopback model server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.person import empty_home  # noqa: F401 - of every live test

KEY_VARIABLE = "LOOPBACK_KEY"


@pytest.fixture(scope="session")
def binary() -> str:
    """Return the path of the real Gemini CLI."""
    path = os.environ.get("PRSM_LIVE_GEMINI", "")
    if not Path(path).is_file():
        pytest.skip("the gemini CLI is not installed: npm is missing or cannot reach its registry")
    return path


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "secret-loopback-key")
