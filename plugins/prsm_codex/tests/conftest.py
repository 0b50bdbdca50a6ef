"""The real Codex, where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def binary() -> str:
    """Return the path of the real Codex."""
    path = os.environ.get("PRSM_LIVE_CODEX", "")
    if not Path(path).is_file():
        pytest.skip("the codex CLI is not installed: npm is missing or cannot reach its registry")
    return path
