"""Which variables reach what agents run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.kit.environment import (
    child_environment,
    must_be_named,
    own_programs_last,
    passed,
    url_passwords,
    with_loopback,
)

LOOPBACK = ["localhost", "127.0.0.1", "::1"]
NETWORK = [
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
    *("NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("REQUESTS_CA_BUNDLE", "CODEX_CA_CERTIFICATE"),
]


@pytest.mark.requirement("U30")
@pytest.mark.parametrize("name", NETWORK)
def test_settings_of_the_network_always_reach_children(name):
    assert child_environment({name: "x"})[name] == "x"


@pytest.mark.requirement("U30")
@pytest.mark.parametrize(
    ("given", "upper", "lower"),
    [
        ({}, [], []),
        ({"NO_PROXY": "a.test, b.test"}, ["a.test", "b.test"], ["a.test", "b.test"]),
        ({"no_proxy": "a.test"}, ["a.test"], ["a.test"]),
        ({"NO_PROXY": "a.test", "no_proxy": "b.test"}, ["a.test"], ["b.test"]),
        ({"NO_PROXY": "127.0.0.1,localhost"}, [], []),
    ],
)
def test_loopback_always_stands_among_what_needs_no_proxy(given, upper, lower):
    env = with_loopback(given)
    for name, hosts in (("NO_PROXY", upper), ("no_proxy", lower)):
        assert set(env[name].split(",")) == {*LOOPBACK, *hosts}
    assert with_loopback(env) == env


@pytest.mark.requirement("U30")
def test_a_pattern_takes_what_begins_so_and_a_name_takes_itself():
    source = {"CONDA_PREFIX": "/c", "CONDA_EXE": "/e", "JAVA_HOME": "/j", "JAVA_HOMES": "/x"}
    assert passed(source, ["CONDA_*", "JAVA_HOME"]) == ["CONDA_PREFIX", "CONDA_EXE", "JAVA_HOME"]


SECRETS = {
    **dict.fromkeys(["X_API_KEY", "X_TOKEN", "X_AUTH", "X_PAT", "XPASSWORD", "X_PWD", "x_secret"]),
    **dict.fromkeys(["X_APIKEY", "X_CREDENTIALS", "X_ACCESS_KEY_ID", "X_PRIVATE", "X_COOKIE"]),
    "X_URL": "postgres://app:wordpass@db/app",
    "X_CONNECTION": "mongodb+srv://a:b%40c@host,other",
}


@pytest.mark.requirement("U30", "U19")
@pytest.mark.parametrize("name", SECRETS)
def test_no_pattern_takes_a_key_or_a_password_but_its_full_name_does(name):
    source = {name: SECRETS[name] or "value"}
    assert passed(source, ["X*", "x*"]) == []
    assert passed(source, [name]) == [name]


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV"])
def test_no_pattern_takes_what_makes_programs_load_code(name):
    assert passed({name: "/x"}, [f"{name[:4]}*"]) == []


@pytest.mark.parametrize("url", ["https://host/x", "http://user@host", "git@host:a/b", "/a:b@c"])
def test_an_address_without_a_password_is_none(url):
    assert not must_be_named("X_URL", url)


@given(
    st.text(
        st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="/?#@:%"), min_size=1
    )
)
def test_the_password_of_an_address_is_found(password):
    assert password in set(url_passwords(f"http://user:{password}@proxy.test:3128/"))


def test_a_password_is_found_as_it_is_written_and_as_it_is_meant():
    found = set(url_passwords("http://me:a%40b%21c@proxy.test"))
    assert found == {"a%40b%21c", "a@b!c", "me:a%40b%21c", "me:a@b!c"}


@pytest.mark.requirement("U30")
@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="runs in no virtual environment")
def test_prsms_own_programs_come_last_unless_they_are_the_projects():
    own = str(Path(sys.prefix, "bin"))
    path = os.pathsep.join([own, "/usr/bin", "/bin"])
    assert own_programs_last(path, Path("/elsewhere")) == os.pathsep.join(["/usr/bin", "/bin", own])
    assert own_programs_last(path, Path(sys.prefix).parent) == path
    assert own_programs_last("/usr/bin", None) == "/usr/bin"
