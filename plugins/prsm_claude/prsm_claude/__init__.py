"""Claude Code as a provider of PRSM: the program that comes with claude-agent-sdk.

A preset for another vendor that speaks the Messages API builds on two names, imported lazily so
that listing plugins stays cheap::

    config = ClaudeConfig.from_settings({"base_url": URL, "api_key_env": KEY, **settings})
    provider = ClaudeProvider(config, services)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prsm_claude.config import ClaudeConfig
    from prsm_claude.provider import ClaudeProvider

__all__ = ["ClaudeConfig", "ClaudeProvider"]

_HOMES = {"ClaudeConfig": "prsm_claude.config", "ClaudeProvider": "prsm_claude.provider"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'prsm_claude' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
