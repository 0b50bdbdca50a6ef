"""The provider's section of the configuration, as it is checked and shown by `prsm config`."""

from __future__ import annotations

from prsm_core.kit import model_of_keys
from prsm_protocols.program.config import KEYS, ProgramConfig

SETTINGS = model_of_keys("ProgramSettings", KEYS, ProgramConfig.from_settings)
