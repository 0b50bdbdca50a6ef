"""The provider's section of the configuration."""

from __future__ import annotations

import pytest
from prsm_gemini.config import Backend, GeminiConfig

from prsm_core.domain.models import ModelInfo
from prsm_core.errors import ConfigError


def config(**settings):
    return GeminiConfig.from_settings(settings)


def test_an_empty_section_is_the_users_login_over_acp():
    assert config() == GeminiConfig(backend=Backend.ACP, command=("gemini",))


def test_every_key_is_read():
    given = config(
        backend="headless",
        command="node /opt/gemini.js",
        base_url="http://127.0.0.1:1",
        api_key_env="KEY",
        env={"A": 1},
        models={"m": {"context_window": 5}},
        profiles=[],
        kind="gemini",
    )
    assert given == GeminiConfig(
        backend=Backend.HEADLESS,
        command=("node", "/opt/gemini.js"),
        base_url="http://127.0.0.1:1",
        api_key_env="KEY",
        env={"A": "1"},
        models=(ModelInfo(model_id="m", context_window=5),),
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"backend": "cloud"}, "one of acp, headless, auto"),
        ({"command": []}, "a program"),
        ({"base_url": " "}, "a text"),
        ({"base_url": "not-a-url"}, "the address of a server"),
        ({"env": ["A"]}, "a mapping"),
        ({"models": "m"}, "a list of model names"),
        ({"models": {"m": {"size": 1}}}, "known keys"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_with_its_place(settings, says):
    with pytest.raises(ConfigError, match=says) as caught:
        config(**settings)
    assert f"providers.gemini.{next(iter(settings))}" in caught.value.message


def test_an_unknown_key_is_told_with_the_nearest():
    with pytest.raises(ConfigError, match="unknown key 'backnd'") as caught:
        config(backnd="acp")
    assert caught.value.hint == "Did you mean `backend`?"
