"""Settings and where they lie, loaded lazily: paths alone must not cost yaml and all sections."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prsm_core.config.json_schema import config_schema
    from prsm_core.config.loader import LoadedSettings, load_settings
    from prsm_core.config.paths import Paths, ledger_path, private_dir, resolve_paths
    from prsm_core.config.schema import Settings

_HOME_OF = {
    "LoadedSettings": "loader",
    "Paths": "paths",
    "Settings": "schema",
    "config_schema": "json_schema",
    "ledger_path": "paths",
    "load_settings": "loader",
    "private_dir": "paths",
    "resolve_paths": "paths",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'prsm_core.config' has no attribute {name!r}")
    return getattr(importlib.import_module(f"prsm_core.config.{_HOME_OF[name]}"), name)


__all__ = [
    "LoadedSettings",
    "Paths",
    "Settings",
    "config_schema",
    "ledger_path",
    "load_settings",
    "private_dir",
    "resolve_paths",
]
