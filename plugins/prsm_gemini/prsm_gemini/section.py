"""The provider's section of the configuration, as it is checked and shown by `prsm config`."""

from __future__ import annotations

from prsm_core.kit import model_of_keys
from prsm_gemini.config import KEYS, GeminiConfig

SETTINGS = model_of_keys("GeminiSettings", KEYS, GeminiConfig.from_settings)
