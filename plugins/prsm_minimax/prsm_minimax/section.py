"""The provider's section of the configuration, as it is checked and shown by `prsm config`."""

from __future__ import annotations

from prsm_codex import vendor_keys

from prsm_core import Key, Parser, model_of_keys, parse_choice
from prsm_minimax.provider import PLANS, REGIONS

KEYS: dict[str, Parser] = {
    **vendor_keys(),
    "plan": Key(parse_choice(*PLANS), "What the models are bought by; it says which there are."),
    "region": Key(parse_choice(*REGIONS), "Where the servers are."),
}
SETTINGS = model_of_keys("MinimaxSettings", KEYS)
