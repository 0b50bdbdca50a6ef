"""Codex as a provider of PRSM, by way of `codex app-server` or `codex exec`.

A preset for another vendor that speaks the Responses API builds on these names, imported lazily
so that listing plugins stays cheap::

    config = CodexConfig.from_settings({"base_url": URL, "api_key_env": KEY, **settings})
    provider = CodexProvider(config, services)

One that also speaks what Claude Code speaks describes itself as a Vendor, and `build_vendor`
makes a provider of it that runs each agent by the backend that suits its role.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prsm_codex.config import CodexConfig
    from prsm_codex.provider import CodexProvider
    from prsm_codex.vendor import Vendor, VendorProvider, build_vendor, take_choice, vendor_keys

__all__ = [
    "CodexConfig",
    "CodexProvider",
    "Vendor",
    "VendorProvider",
    "build_vendor",
    "take_choice",
    "vendor_keys",
]

_HOMES = {
    "CodexConfig": "prsm_codex.config",
    "CodexProvider": "prsm_codex.provider",
    "Vendor": "prsm_codex.vendor",
    "VendorProvider": "prsm_codex.vendor",
    "build_vendor": "prsm_codex.vendor",
    "take_choice": "prsm_codex.vendor",
    "vendor_keys": "prsm_codex.vendor",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'prsm_codex' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
