"""Which key is used, and what is said where there is none."""

from __future__ import annotations

import pytest

from prsm_core import ProviderNotAvailableError
from prsm_core.kit import find_key, require_key


@pytest.mark.parametrize(
    ("variable", "places", "key"),
    [
        ("KEY", ({"KEY": "own"}, {"KEY": "user's"}), "own"),
        ("KEY", ({}, {"KEY": "user's"}), "user's"),
        ("KEY", ({"KEY": ""}, {"KEY": "user's"}), "user's"),
        ("KEY", ({"KEY": ""}, {}), None),
        ("KEY", (), None),
        (None, ({"KEY": "own"},), None),
    ],
)
def test_the_first_place_that_has_a_key_gives_it(variable, places, key):
    assert find_key(variable, *places) == key
    if variable and key:
        assert require_key(variable, *places) == key


def test_a_missing_key_is_told_with_its_variable_and_a_cure():
    with pytest.raises(ProviderNotAvailableError, match="variable KEY is not set") as caught:
        require_key("KEY", {"KEY": ""}, {"OTHER": "x"})
    assert caught.value.hint == "set KEY to the API key, or change `api_key_env`"
