"""What the settings say of secrets is found, and nothing else is taken for one."""

import pytest

from prsm_core.config import Settings
from prsm_core.config.secrets import known_secrets


def test_values_are_found_by_the_variables_that_are_named_and_by_their_own_names():
    settings = Settings.of(
        {
            "providers": {
                "a": {
                    "api_key_env": "A_KEY",
                    "env": {"VENDOR_TOKEN": "in-the-file", "NO_COLOR": "1"},
                    "profiles": [{"name": "w", "env": {"X": "W_KEY", "Y": "UNSET"}}],
                }
            },
            "mcp_servers": {
                "s": {"url": "http://x", "headers": {"Authorization": "Bearer abc", "X-Team": "t"}}
            },
            "experts": {
                "e": {
                    "system_prompt": "x",
                    "mcp_servers": {"p": {"command": "c", "env": {"DB_PASSWORD": "pw"}}},
                }
            },
        }
    )
    environ = {"A_KEY": "first", "W_KEY": "second", "OTHER_KEY": "third", "EDITOR": "vi"}
    assert set(known_secrets(settings, environ)) == {
        "first",
        "second",
        "third",
        "in-the-file",
        "Bearer abc",
        "abc",
        "pw",
    }


def test_the_place_of_a_key_is_no_secret():
    assert list(known_secrets(Settings(), {"SSH_KEY": "/home/me/.ssh/id", "PATH": "/bin"})) == []


@pytest.mark.requirement("U19")
def test_the_password_of_an_address_is_a_secret_whatever_its_variable_is_called():
    settings = Settings.of(
        {"mcp_servers": {"s": {"command": "c", "env": {"DB": "pg://a:in-the-file@db"}}}}
    )
    found = set(known_secrets(settings, {"HTTPS_PROXY": "http://me:in%21the-shell@proxy:3128"}))
    assert {"in!the-shell", "in%21the-shell", "me:in!the-shell", "in-the-file"} <= found
