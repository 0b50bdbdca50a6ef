"""Codex as a provider of PRSM, by way of `codex app-server`.

A preset for another vendor that speaks the Responses API builds on two names::

    config = CodexConfig.from_settings({"base_url": URL, "api_key_env": KEY, **settings})
    provider = CodexProvider(config, services)
"""

from __future__ import annotations

from prsm_codex.config import CodexConfig
from prsm_codex.provider import CodexProvider

__all__ = ["CodexConfig", "CodexProvider"]
