"""The provider's section of the configuration, as it is checked and shown by `prsm config`."""

from __future__ import annotations

from prsm_claude.config import KEYS, ClaudeConfig
from prsm_core.kit import model_of_keys

SETTINGS = model_of_keys("ClaudeSettings", KEYS, ClaudeConfig.from_settings)
