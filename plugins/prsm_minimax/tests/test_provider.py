"""Where MiniMax's servers are, and what runs its models."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from prsm_minimax import provider
from prsm_minimax.plugin import prsm_providers
from prsm_testing.doubles import open_services

from prsm_core.errors import ConfigError, ProviderNotAvailableError


@pytest.fixture
async def services(tmp_path):
    async with open_services(tmp_path) as made:
        yield made


def settings_of(backend: Any) -> Any:
    return backend._config


@pytest.fixture(autouse=True)
def _claude():
    pytest.importorskip("prsm_claude", reason="prsm-claude is not installed")


@pytest.mark.parametrize(
    ("region", "host"),
    [
        (None, "https://api.minimax.io"),
        ("global", "https://api.minimax.io"),
        ("china", "https://api.minimaxi.com"),
    ],
)
def test_each_region_has_its_servers(services, region, host):
    built = provider.build({"region": region}, services)
    config = settings_of(built._others)
    assert (config.base_url, config.api_key_env) == (f"{host}/v1", "MINIMAX_API_KEY")
    assert config.lean
    assert settings_of(built._masters).bearer
    assert settings_of(built._masters).base_url == f"{host}/anthropic"
    assert settings_of(built._masters).api_key_env == "MINIMAX_API_KEY"


@pytest.mark.parametrize(("plan", "flash"), [("payg", False), ("m-plan", True)])
async def test_a_plan_decides_which_models_there_are(services, plan, flash):
    built = provider.build({"plan": plan, "backend": "codex"}, services)
    models = {model.model_id: model.context_window for model in await built.list_models()}
    assert models["MiniMax-M3"] == 512_000
    assert models["MiniMax-M2.7"] == 204_800
    assert ("MiniMax-M3.1-Flash-Preview" in models) is flash


@pytest.mark.parametrize("settings", [{"region": "mars"}, {"plan": "free"}, {"regio": "china"}])
def test_a_wrong_setting_is_an_error_that_names_it(services, settings):
    with pytest.raises(ConfigError, match=rf"providers\.minimax.*{next(iter(settings))}"):
        provider.build({**settings, "backend": "codex"}, services)


@pytest.mark.parametrize("backend", ["auto", "claude"])
def test_without_claude_code_it_says_how_to_get_it(services, monkeypatch, backend):
    monkeypatch.setitem(sys.modules, "prsm_claude", None)
    with pytest.raises(ProviderNotAvailableError, match="prsm_claude is not installed") as caught:
        provider.build({"backend": backend}, services)
    assert "prsm install claude" in str(caught.value.hint)
    provider.build({"backend": "codex"}, services)


async def test_without_its_key_it_is_not_available(services, monkeypatch):
    monkeypatch.delenv("MINIMAX_API_KEY")
    script = services.state_dir / "codex"
    script.write_text("#!/bin/sh\necho codex-cli 0.169.0\n")
    script.chmod(0o755)
    built = provider.build({"backend": "codex", "command": str(script)}, services)
    status = await built.probe()
    assert not status.available
    assert "MINIMAX_API_KEY" in str(status.reason)


def test_the_plugin_contributes_the_provider_and_imports_nothing_heavy():
    (spec,) = prsm_providers()
    assert spec.name == "minimax"
    code = "import sys, prsm_minimax.plugin; sys.exit('prsm_codex' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
