"""MiniMax: its servers, its models, and what runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_codex import Vendor, VendorProvider, build_vendor, take_choice, vendor_keys

from prsm_core import ProviderNotAvailableError
from prsm_core.kit import Key, Parser, model_of_keys, parse_choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import Provider, ProviderServices

NAME = "minimax"
KEY = "MINIMAX_API_KEY"

REGIONS = {"global": "https://api.minimax.io", "china": "https://api.minimaxi.com"}

# The vendor says 1,000,000 for M3 in one place and this in another: the smaller one is safe.
MODELS: Mapping[str, Mapping[str, Any]] = {
    "MiniMax-M3": {"context_window": 512_000},
    "MiniMax-M2.7": {"context_window": 204_800},
}
PLANS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "payg": MODELS,
    "m-plan": {**MODELS, "MiniMax-M3.1-Flash-Preview": {}},  # offered under this plan only
}


KEYS: dict[str, Parser] = {
    **vendor_keys(),
    "plan": Key(parse_choice(*PLANS), "What the models are bought by; it says which there are."),
    "region": Key(parse_choice(*REGIONS), "Where the servers are."),
}
SETTINGS = model_of_keys("MinimaxSettings", KEYS)


def build(settings: Mapping[str, Any], services: ProviderServices) -> VendorProvider:
    """Build the provider; raise ConfigError, or ProviderNotAvailableError without its backend."""
    rest = dict(settings)
    host = take_choice(rest, "region", REGIONS, default="global", section=NAME)
    models = take_choice(rest, "plan", PLANS, default="payg", section=NAME)
    vendor = Vendor(
        name=NAME,
        api_key_env=KEY,
        models=models,
        responses_url=f"{host}/v1",
        messages_url=f"{host}/anthropic",
    )
    return build_vendor(vendor, rest, services, _claude)


def _claude(settings: Mapping[str, Any], services: ProviderServices) -> Provider:
    try:
        from prsm_claude import ClaudeConfig, ClaudeProvider
    except ModuleNotFoundError as error:
        raise ProviderNotAvailableError(
            f"{NAME} runs its masters on Claude Code, but {error.name} is not installed",
            hint="Install it with `prsm install claude`, or set `backend: codex`.",
        ) from error
    config = ClaudeConfig.from_settings({"bearer": True, **settings}, section=NAME)
    return ClaudeProvider(config, services)
