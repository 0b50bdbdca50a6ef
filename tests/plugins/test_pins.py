"""A plugin's bounds on the core are compared as release numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.plugins.pins import core_pins, satisfies

VERSIONS = st.lists(st.integers(0, 3), min_size=1, max_size=3)


@given(VERSIONS, VERSIONS, st.sampled_from(["<", "<=", ">", ">="]))
def test_bounds_compare_releases_as_numbers_with_missing_ones_zero(one, two, sign):
    padded = [part + [0] * (3 - len(part)) for part in (one, two)]
    text = [".".join(map(str, part)) for part in (one, two)]
    expected = {
        "<": padded[0] < padded[1],
        "<=": padded[0] <= padded[1],
        ">": padded[0] > padded[1],
        ">=": padded[0] >= padded[1],
    }
    assert satisfies(text[0], f"{sign}{text[1]}") == expected[sign]


@pytest.mark.parametrize("pin", [">=9", "==0.1", "~=0.1"])
def test_a_source_tree_that_is_not_installed_suits_every_pin(pin):
    assert satisfies("?", pin)


def test_only_bounds_on_the_core_itself_are_read():
    found = core_pins(
        ["click>=8", "prsm-core", "prsm.Core[x] (>=0.1,<0.2)", "prsm-core<0; extra == 'y'"]
    )
    assert list(found) == [">=0.1,<0.2"]
