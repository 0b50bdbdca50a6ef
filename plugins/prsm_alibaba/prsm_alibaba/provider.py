"""Alibaba Model Studio: its servers by plan and region, its models, and what runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsm_codex import Vendor, VendorProvider, build_vendor, take_choice, vendor_keys

from prsm_core import ConfigError, ProviderNotAvailableError
from prsm_core.kit import Key, Parser, model_of_keys, parse_choice, parse_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import Provider, ProviderServices

    Models = Mapping[str, Mapping[str, Any]]

NAME = "alibaba"
KEY = "DASHSCOPE_API_KEY"
CODING = "coding"
PLANS = {"payg": "payg", CODING: CODING}
MODELS: Models = {  # of the Responses interface
    "qwen3.7-max": {"context_window": 991_000},
    "qwen3.5-plus": {"context_window": 1_000_000},
    "qwen3-max": {"context_window": 262_144},
}
CODING_MODELS: Models = {
    "qwen3.5-plus": {"context_window": 1_000_000},
    "qwen3-coder-plus": {"context_window": 1_000_000},
    "qwen3-coder-next": {"context_window": 262_144},
    "qwen3-max-2026-01-23": {"context_window": 262_144},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A region's hosts; `workspaces` is where a workspace has a host of its own."""

    shared: str
    workspaces: str
    coding: str | None


REGIONS = {
    "intl": Region(
        shared="dashscope-intl.aliyuncs.com",
        workspaces="ap-southeast-1.maas.aliyuncs.com",
        coding="coding-intl.dashscope.aliyuncs.com",
    ),
    "us": Region(
        shared="dashscope-us.aliyuncs.com",
        workspaces="us-east-1.maas.aliyuncs.com",
        coding=None,
    ),
    "cn": Region(
        shared="dashscope.aliyuncs.com",
        workspaces="cn-beijing.maas.aliyuncs.com",
        coding="coding.dashscope.aliyuncs.com",
    ),
}


def build(settings: Mapping[str, Any], services: ProviderServices) -> VendorProvider:
    """Build the provider; raise ConfigError, or ProviderNotAvailableError without its backend."""
    rest = dict(settings)
    return build_vendor(take_vendor(rest), rest, services, _claude)


def take_vendor(rest: dict[str, Any]) -> Vendor:
    """Remove plan and region from a section; return their vendor, or raise ConfigError."""
    region = take_choice(rest, "region", REGIONS, default="intl", section=NAME)
    plan = take_choice(rest, "plan", PLANS, default="payg", section=NAME)
    workspace = rest.pop("workspace_id", None)
    if plan == CODING:
        if region.coding is None:
            raise ConfigError(
                f"providers.{NAME}.plan: the Coding Plan has no servers in this region",
                hint="Use `region: intl` or `region: cn`.",
            )
        # Its other interface is Chat Completions, which Codex no longer speaks.
        models, host, responses = CODING_MODELS, region.coding, None
    else:
        if workspace is not None and not (isinstance(workspace, str) and workspace.isalnum()):
            raise ConfigError(f"providers.{NAME}.workspace_id: not an id: {workspace!r}")
        models, host = MODELS, f"{workspace}.{region.workspaces}" if workspace else region.shared
        responses = f"https://{host}/compatible-mode/v1"
    return Vendor(
        name=NAME,
        api_key_env=KEY,
        models=models,
        responses_url=responses,
        messages_url=f"https://{host}/apps/anthropic",
    )


def _claude(settings: Mapping[str, Any], services: ProviderServices) -> Provider:
    try:
        from prsm_claude import ClaudeConfig, ClaudeProvider
    except ModuleNotFoundError as error:
        raise ProviderNotAvailableError(
            f"{NAME} needs Claude Code here, but {error.name} is not installed",
            hint="Install it with `prsm install claude`; pay-as-you-go can do with "
            "`backend: codex`.",
        ) from error
    config = ClaudeConfig.from_settings({"bearer": True, **settings}, section=NAME)
    return ClaudeProvider(config, services)


KEYS: dict[str, Parser] = {
    **vendor_keys(),
    "plan": Key(parse_choice(*PLANS), "How the models are paid for."),
    "region": Key(parse_choice(*REGIONS), "Where the servers are."),
    "workspace_id": Key(parse_text, "Id of a workspace of the vendor's, with servers of its own."),
}
SETTINGS = model_of_keys("AlibabaSettings", KEYS, lambda given: take_vendor(dict(given)))
