"""The provider's settings."""

from __future__ import annotations

import pytest
from prsm_codex.config import CodexConfig

from prsm_core.domain.models import ModelInfo
from prsm_core.errors import ConfigError


def test_nothing_is_needed():
    assert CodexConfig.from_settings({}) == CodexConfig()
    assert CodexConfig.from_settings({"base_url": None}).custom_server is False


def test_every_key_is_understood():
    config = CodexConfig.from_settings(
        {
            "command": "codex --strict-config",
            "base_url": "http://x/v1",
            "api_key_env": "K",
            "env": {"A": 1},
            "models": {"m1": {"context_window": 1000, "reasoning_efforts": ["low"]}, "m2": None},
            "profiles": [{"name": "p"}],
            "lean": True,
            "backend": "exec",
            "enforcement": "pre_tool",
            "network": True,
        }
    )
    assert (config.backend, config.enforcement, config.network) == ("exec", "pre_tool", True)
    assert config.command == ("codex", "--strict-config")
    assert config.env == {"A": "1"}
    assert config.models == (
        ModelInfo(model_id="m1", context_window=1000, reasoning_efforts=("low",)),
        ModelInfo(model_id="m2"),
    )
    assert config.custom_server


def test_models_can_be_a_list_of_names():
    config = CodexConfig.from_settings({"models": ["a", "b"]})
    assert [model.model_id for model in config.models] == ["a", "b"]


def test_an_unknown_key_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match=r"providers\.mini: unknown key 'base-url'") as caught:
        CodexConfig.from_settings({"base-url": "x"}, section="mini")
    assert caught.value.hint == "Did you mean `base_url`?"


@pytest.mark.parametrize(
    "settings",
    [
        {"command": []},
        {"command": ""},
        {"command": 7},
        {"command": ["codex", 1]},
        {"base_url": 5},
        {"base_url": " "},
        {"base_url": "not-a-url"},
        {"env": ["A"]},
        {"models": 3},
        {"models": {"m": {"size": 1}}},
        {"lean": "yes"},
        {"backend": "mcp-server"},
        {"enforcement": "none"},
        {"network": "yes"},
    ],
)
def test_a_value_of_the_wrong_kind_is_an_error_that_names_its_key(settings):
    with pytest.raises(ConfigError, match=rf"providers\.codex\.{next(iter(settings))}"):
        CodexConfig.from_settings(settings)


def test_one_shot_runs_cannot_ask_for_approval():
    with pytest.raises(ConfigError, match=r"providers\.codex\.enforcement"):
        CodexConfig.from_settings({"backend": "exec", "enforcement": "approval"})
