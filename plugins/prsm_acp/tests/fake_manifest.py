"""The manifest of the small agent of these tests, and a provider that runs it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from prsm_acp.config import AcpConfig
from prsm_acp.manifest import Manifest, Quirks
from prsm_acp.provider import AcpProvider

from prsm_core.domain.agents import PermissionMode

FAKE = (sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_acp.py")))
MANIFEST = Manifest(
    name="fake",
    command=FAKE,
    install="it is in the tests",
    login="nothing to do",
    url_variable="FAKE_URL",
    modes=dict.fromkeys(PermissionMode, "ask"),
    tested="1.0",
    quirks=Quirks(reusable_after_error=True),
)


class FakeProvider(AcpProvider):
    """Keeps the agent's sessions where a new process finds them."""

    def environment(self):
        return {**super().environment(), "FAKE_HOME": str(self.services.state_dir)}


def build_fake(settings, services, **quirks):
    """Build a provider of the small agent, which has these quirks."""
    manifest = replace(MANIFEST, quirks=replace(MANIFEST.quirks, **quirks))
    return FakeProvider(AcpConfig.from_settings(settings), manifest, services)
