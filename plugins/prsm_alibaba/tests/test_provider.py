"""Where Alibaba's servers are, by plan and region, and what runs its models."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from prsm_alibaba import provider
from prsm_alibaba.plugin import prsm_providers
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
    ("settings", "host"),
    [
        ({}, "dashscope-intl.aliyuncs.com"),
        ({"region": "us"}, "dashscope-us.aliyuncs.com"),
        ({"region": "cn"}, "dashscope.aliyuncs.com"),
        ({"workspace_id": "ws1"}, "ws1.ap-southeast-1.maas.aliyuncs.com"),
        ({"workspace_id": "ws1", "region": "us"}, "ws1.us-east-1.maas.aliyuncs.com"),
        ({"workspace_id": "ws1", "region": "cn"}, "ws1.cn-beijing.maas.aliyuncs.com"),
    ],
)
def test_each_region_and_workspace_has_its_servers(services, settings, host):
    built = provider.build(settings, services)
    config = settings_of(built._others)
    assert config.base_url == f"https://{host}/compatible-mode/v1"
    assert config.api_key_env == "DASHSCOPE_API_KEY"
    assert config.lean
    assert settings_of(built._masters).bearer
    assert settings_of(built._masters).base_url == f"https://{host}/apps/anthropic"


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("intl", "coding-intl.dashscope.aliyuncs.com"),
        ("cn", "coding.dashscope.aliyuncs.com"),
    ],
)
async def test_the_coding_plan_is_for_claude_code_alone(services, region, host):
    built = provider.build({"plan": "coding", "region": region}, services)
    assert built._others is built._masters
    assert settings_of(built._masters).base_url == f"https://{host}/apps/anthropic"
    models = [model.model_id for model in await built.list_models()]
    assert models[0] == "qwen3.5-plus"
    assert "qwen3.7-max" not in models
    with pytest.raises(ConfigError, match=r"providers\.alibaba\.backend"):
        provider.build({"plan": "coding", "backend": "codex"}, services)


@pytest.mark.parametrize(
    "settings",
    [
        {"plan": "coding", "region": "us"},
        {"region": "mars"},
        {"plan": "free"},
        {"workspace_id": "a/b"},
        {"workspace_id": 7},
        {"regio": "cn"},
    ],
)
def test_a_wrong_setting_is_an_error_that_names_it(services, settings):
    with pytest.raises(ConfigError, match=rf"providers\.alibaba.*{next(iter(settings))}"):
        provider.build(settings, services)


async def test_its_models_have_their_windows(services):
    built = provider.build({"backend": "codex"}, services)
    models = {model.model_id: model.context_window for model in await built.list_models()}
    assert models["qwen3-max"] == 262_144
    assert all(models.values())


@pytest.mark.parametrize("settings", [{}, {"backend": "claude"}, {"plan": "coding"}])
def test_without_claude_code_it_says_how_to_get_it(services, monkeypatch, settings):
    monkeypatch.setitem(sys.modules, "prsm_claude", None)
    with pytest.raises(ProviderNotAvailableError, match="prsm_claude is not installed") as caught:
        provider.build(settings, services)
    assert "prsm install claude" in str(caught.value.hint)
    provider.build({"backend": "codex"}, services)


def test_the_plugin_contributes_the_provider_and_imports_nothing_heavy():
    (spec,) = prsm_providers()
    assert spec.name == "alibaba"
    code = "import sys, prsm_alibaba.plugin; sys.exit('prsm_codex' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
