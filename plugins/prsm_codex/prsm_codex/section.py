"""The provider's section of the configuration, as it is checked and shown by `prsm config`."""

from __future__ import annotations

from prsm_codex.config import KEYS, CodexConfig
from prsm_core.kit import model_of_keys

SETTINGS = model_of_keys("CodexSettings", KEYS, CodexConfig.from_settings)
