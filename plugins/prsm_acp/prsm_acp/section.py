"""The provider's section of the configuration, as it is checked and shown by `prsm config`."""

from __future__ import annotations

from prsm_acp.config import KEYS, AcpConfig
from prsm_core.kit import model_of_keys

SETTINGS = model_of_keys("AcpSettings", KEYS, AcpConfig.from_settings)
