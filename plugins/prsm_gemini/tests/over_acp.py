"""Gemini over ACP, with the small agent of the ACP provider's tests in the program's place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prsm_gemini.acp import GeminiAcp
from prsm_gemini.config import GeminiConfig

from prsm_core.domain.agents import PermissionMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.interfaces.provider import ProviderServices


def build_fake(settings: Mapping[str, Any], services: ProviderServices) -> GeminiAcp:
    """Build the provider; `command` is the small agent, and `base_url` where its model is."""
    env = {
        "GEMINI_API_KEY": "none",
        "FAKE_URL": settings["base_url"],
        "FAKE_HOME": str(services.state_dir),
    }
    provider = GeminiAcp(GeminiConfig.from_settings({**settings, "env": env}), services)
    provider.manifest = replace(provider.manifest, modes=dict.fromkeys(PermissionMode, "ask"))
    return provider
