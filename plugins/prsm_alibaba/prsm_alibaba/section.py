"""The provider's section of the configuration, as it is checked and shown by `prsm config`."""

from __future__ import annotations

from prsm_codex import vendor_keys

from prsm_alibaba.provider import PLANS, REGIONS, take_vendor
from prsm_core import Key, Parser, model_of_keys, parse_choice, parse_text

KEYS: dict[str, Parser] = {
    **vendor_keys(),
    "plan": Key(parse_choice(*PLANS), "How the models are paid for."),
    "region": Key(parse_choice(*REGIONS), "Where the servers are."),
    "workspace_id": Key(parse_text, "Id of a workspace of the vendor's, with servers of its own."),
}
SETTINGS = model_of_keys("AlibabaSettings", KEYS, lambda given: take_vendor(dict(given)))
