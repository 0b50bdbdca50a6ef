"""Codex as a provider of PRSM, by way of `codex app-server`.

A preset for another vendor that speaks the Responses API builds on two names, imported lazily so
that listing plugins stays cheap::

    config = CodexConfig.from_settings({"base_url": URL, "api_key_env": KEY, **settings})
    provider = CodexProvider(config, services)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prsm_codex.config import CodexConfig
    from prsm_codex.provider import CodexProvider

__all__ = ["CodexConfig", "CodexProvider"]

_HOMES = {"CodexConfig": "prsm_codex.config", "CodexProvider": "prsm_codex.provider"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'prsm_codex' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
