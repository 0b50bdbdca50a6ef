"""The provider's section of the configuration, as it is checked and shown by `prsm config`."""

from __future__ import annotations

from prsm_core.kit import model_of_keys
from prsm_regions.config import KEYS, RegionsConfig

SETTINGS = model_of_keys("RegionsSettings", KEYS, RegionsConfig.from_settings)
