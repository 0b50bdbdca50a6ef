"""The provider's settings."""

from __future__ import annotations

import pytest
from prsm_claude.config import ClaudeConfig

from prsm_core.domain.models import ModelInfo
from prsm_core.errors import ConfigError


def test_nothing_is_needed():
    assert ClaudeConfig.from_settings({}) == ClaudeConfig()
    assert ClaudeConfig.from_settings({"base_url": None}).custom_server is False


def test_every_key_is_understood():
    config = ClaudeConfig.from_settings(
        {
            "command": "claude --debug",
            "base_url": "http://x",
            "api_key_env": "K",
            "bearer": True,
            "env": {"A": 1},
            "models": {"m1": {"context_window": 1000, "reasoning_efforts": ["low"]}, "m2": None},
            "profiles": [{"name": "p"}],
            "home": "~/claude",
        }
    )
    assert config == ClaudeConfig(
        command=("claude", "--debug"),
        base_url="http://x",
        api_key_env="K",
        bearer=True,
        env={"A": "1"},
        models=(
            ModelInfo(model_id="m1", context_window=1000, reasoning_efforts=("low",)),
            ModelInfo(model_id="m2"),
        ),
        home="~/claude",
    )
    assert config.custom_server


def test_models_can_be_a_list_of_names():
    config = ClaudeConfig.from_settings({"models": ["a", "b"]})
    assert [model.model_id for model in config.models] == ["a", "b"]


def test_an_unknown_key_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match=r"providers\.mini: unknown key 'base-url'") as caught:
        ClaudeConfig.from_settings({"base-url": "x"}, section="mini")
    assert caught.value.hint == "Did you mean `base_url`?"


@pytest.mark.parametrize(
    "settings",
    [
        {"command": []},
        {"command": ""},
        {"command": 7},
        {"command": ["claude", 1]},
        {"base_url": 5},
        {"base_url": " "},
        {"env": ["A"]},
        {"models": 3},
        {"models": {"m": {"size": 1}}},
        {"bearer": "yes"},
        {"home": 1},
        {"": 1},
    ],
)
def test_a_value_of_the_wrong_kind_is_an_error_that_names_its_place(settings):
    with pytest.raises(ConfigError, match=r"providers\.claude"):
        ClaudeConfig.from_settings(settings)
