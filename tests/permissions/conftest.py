"""What every test of permissions shares."""

from __future__ import annotations

import pytest

from prsm_core.permissions import broker
from prsm_core.permissions.safe import asking


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """Wait for git as long as it takes: on a busy machine no answer in time is no fault."""
    monkeypatch.setattr(asking, "SECONDS", 60.0)
    monkeypatch.setattr(broker, "_GIT_SECONDS", 60.0)
