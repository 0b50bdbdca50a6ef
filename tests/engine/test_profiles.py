"""Auth profiles: which login is taken, and what it makes of the provider's section."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.turns import AgentError, ErrorKind
from prsm_core.engine.providers.registry import (
    LIMITED_SECONDS,
    REFUSED_SECONDS,
    AuthProfiles,
    profile_names,
    with_profile,
)
from prsm_core.errors import ProviderNotAvailableError

LIMITED = AgentError(kind=ErrorKind.RATE_LIMIT, message="slow down", retryable=True)
REFUSED = AgentError(kind=ErrorKind.AUTH_FAILURE, message="who are you?")
SECTION = {
    "command": ["codex"],
    "api_key_env": "VENDOR_KEY",
    "env": {"REGION": "eu"},
    "profiles": [
        {"name": "work", "env": {"VENDOR_KEY": "WORK_KEY"}},
        {"name": "home", "env": {"VENDOR_TOKEN": "HOME_KEY"}, "home": "/home/me/.vendor"},
    ],
}


def test_the_login_of_a_folder_takes_the_place_of_a_key():
    section = {"api_key_env": "VENDOR_KEY", "profiles": [{"name": "mine", "home": "/h"}]}
    assert with_profile(section, "mine", {}) == {"home": "/h"}


def test_a_provider_without_profiles_has_its_own_login_only():
    profiles = AuthProfiles(FakeClock())
    assert profiles.current is None
    assert not profiles.retire(None, LIMITED)


@pytest.mark.parametrize(
    ("error", "rest"),
    [
        (LIMITED, LIMITED_SECONDS),
        (REFUSED, REFUSED_SECONDS),
        (AgentError(kind=ErrorKind.RATE_LIMIT, message="", retry_after_s=500.0), 500.0),
    ],
)
async def test_a_login_comes_back_after_its_rest(fast_clock, error, rest):
    profiles = AuthProfiles(fast_clock, ("a", "b"))
    assert profiles.retire("a", error)
    assert profiles.current == "b"
    await fast_clock.sleep(rest - 1)
    assert profiles.current == "b"
    await fast_clock.sleep(1)
    assert profiles.current == "a"


def test_when_every_login_rests_the_one_that_rests_the_shortest_is_next():
    profiles = AuthProfiles(FakeClock(), ("a", "b"))
    assert profiles.retire("a", LIMITED)
    assert not profiles.retire("b", REFUSED)
    assert profiles.current == "a"


def test_an_error_that_is_no_fault_of_the_login_changes_nothing():
    profiles = AuthProfiles(FakeClock(), ("a", "b"))
    assert not profiles.retire("a", AgentError(kind=ErrorKind.MODEL_ERROR, message=""))
    assert profiles.current == "a"


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([LIMITED, REFUSED]))))
def test_a_fresh_login_is_taken_as_long_as_there_is_one(retired):
    names = ("a", "b", "c", "d")
    profiles, gone = AuthProfiles(FakeClock(), names), set()
    for index, error in retired:
        gone.add(names[index])
        assert profiles.retire(names[index], error) == (len(gone) < len(names))
        fresh = [name for name in names if name not in gone]
        assert not fresh or profiles.current == fresh[0]


def test_the_key_variable_only_changes_its_name():
    settings = with_profile(SECTION, "work", {"WORK_KEY": "s3cret"})
    assert settings == {"command": ["codex"], "api_key_env": "WORK_KEY", "env": {"REGION": "eu"}}


def test_another_variable_gets_its_value_and_a_home_is_passed_on():
    settings = with_profile(SECTION, "home", {"HOME_KEY": "s3cret"})
    assert settings["env"] == {"REGION": "eu", "VENDOR_TOKEN": "s3cret"}
    assert settings["home"] == "/home/me/.vendor"
    assert SECTION["env"] == {"REGION": "eu"}  # the section itself stays as it was


@pytest.mark.parametrize("environ", [{}, {"WORK_KEY": ""}])
def test_a_variable_that_is_not_set_is_named(environ):
    with pytest.raises(ProviderNotAvailableError, match="'work': the variable WORK_KEY"):
        with_profile(SECTION, "work", environ)


def test_profiles_are_named_in_order():
    assert profile_names(SECTION) == ("work", "home")
    assert profile_names({}) == ()
