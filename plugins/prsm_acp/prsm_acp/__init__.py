"""Any agent that speaks the Agent Client Protocol as a provider of PRSM.

A provider for one agent builds on these names, imported lazily so that listing plugins stays
cheap::

    class MyProvider(AcpProvider):
        def launch(self, request, home, endpoint):
            launch = super().launch(request, home, endpoint)
            return replace(launch, env={**launch.env, "MY_HOME": str(home)})


    manifest = find_manifest("gemini")
    provider = MyProvider(AcpConfig.from_settings(settings, section="mine"), manifest, services)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prsm_acp.config import AcpConfig
    from prsm_acp.launch import Launch
    from prsm_acp.manifest import Manifest, McpPlace, ModelChoice, Quirks, SettingsFile, UsageFrom
    from prsm_acp.manifests import find_manifest
    from prsm_acp.provider import AcpProvider

__all__ = [
    "AcpConfig",
    "AcpProvider",
    "Launch",
    "Manifest",
    "McpPlace",
    "ModelChoice",
    "Quirks",
    "SettingsFile",
    "UsageFrom",
    "find_manifest",
]

# All others are of `prsm_acp.manifest`.
_HOMES = {
    "AcpConfig": "prsm_acp.config",
    "AcpProvider": "prsm_acp.provider",
    "Launch": "prsm_acp.launch",
    "find_manifest": "prsm_acp.manifests",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'prsm_acp' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "prsm_acp.manifest")), name)
