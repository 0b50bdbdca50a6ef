"""A provider's section is read the same way by every plugin, and errors name the place."""

from __future__ import annotations

import pytest

from prsm_core.errors import ConfigError
from prsm_core.kit import section
from prsm_core.kit.section import read_section

PARSERS = {
    "command": section.parse_argv,
    "pass_env": section.parse_words,
    "env": section.parse_environment,
    "models": section.parse_models,
    "name": section.parse_text,
    "base_url": section.parse_url,
    "lean": section.parse_flag,
    "backend": section.parse_choice("a", "b"),
}


def read(**settings):
    return read_section("providers.mine", settings, PARSERS)


def test_values_are_taken_and_what_is_empty_is_left_out():
    values = read(command="x 'y z'", pass_env=["A"], env={"N": 1}, lean=True, base_url=None)
    expected = {"command": ("x", "y z"), "pass_env": ("A",), "env": {"N": "1"}, "lean": True}
    assert values == expected


def test_models_are_a_list_or_a_mapping():
    [plain] = read(models=["m"])["models"]
    [told] = read(models={"m": {"context_window": 5, "reasoning_efforts": ["low"]}})["models"]
    assert (plain.model_id, plain.context_window) == ("m", None)
    assert (told.context_window, told.reasoning_efforts) == (5, ("low",))


@pytest.mark.parametrize("key", sorted(section.ENGINE_KEYS))
def test_what_the_engine_has_acted_on_is_nobodys_mistake(key):
    """A section of one's own kind names its plugin: `providers.mine: {kind: codex}`."""
    assert read(**{key: "codex", "backend": "a"}) == {"backend": "a"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"backnd": "a"}, r"providers\.mine: unknown key 'backnd'"),
        ({"backend": "c"}, r"providers\.mine\.backend: one of a, b is needed"),
        ({"command": []}, r"providers\.mine\.command: a program and its arguments"),
        ({"pass_env": 3}, r"providers\.mine\.pass_env: a list of words"),
        ({"env": []}, r"providers\.mine\.env: a mapping of variables"),
        ({"name": " "}, r"providers\.mine\.name: a text"),
        ({"base_url": 5}, r"providers\.mine\.base_url: a text"),
        ({"lean": "yes"}, r"providers\.mine\.lean: true or false"),
        ({"models": 3}, r"providers\.mine\.models: a list of model names"),
        ({"models": {"m": {"size": 1}}}, r"providers\.mine\.models\.m: known keys"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(settings, told):
    with pytest.raises(ConfigError, match=told):
        read(**settings)


def test_the_nearest_key_is_named():
    with pytest.raises(ConfigError) as caught:
        read(backnd="a")
    assert caught.value.hint == "Did you mean `backend`?"


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:8080", "https://api.example/v1/", "HTTPS://me@[::1]:1/x?y=z"]
)
def test_the_address_of_a_server_is_taken_as_it_is(address):
    assert read(base_url=address) == {"base_url": address}


@pytest.mark.parametrize(
    "address",
    [
        "not-a-url",
        "localhost:8080",
        "//host/v1",
        "ftp://host",
        "https://",
        "https://:80/v1",
        "http://host:port",
        "http://host:99999",
        "http://[::1",
        "https://a host/v1",
        "https://host/v1\n",
    ],
)
def test_what_is_no_address_of_a_server_is_refused_with_its_place_and_a_cure(address):
    with pytest.raises(ConfigError, match=r"providers\.mine\.base_url: the address") as caught:
        read(base_url=address)
    assert "https://" in str(caught.value.hint)
