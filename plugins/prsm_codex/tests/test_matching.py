"""The pattern of all names but some: found in every other text, however near to one of them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from prsm_codex.hooks import all_but

from prsm_core.domain.tools import ORCHESTRATION_TOOLS

PATTERN = re.compile(all_but(ORCHESTRATION_TOOLS))
OWN = st.sampled_from(sorted(ORCHESTRATION_TOOLS))
TEXTS = st.text(st.sampled_from("abc_-]^\\\n "), max_size=4)
NAMES = st.text(st.sampled_from("abc_-]^\\ "), max_size=4)


def test_the_names_are_not_found():
    assert not [name for name in ORCHESTRATION_TOOLS if PATTERN.search(name)]


def test_every_beginning_of_a_name_is_found_and_every_end():
    cuts = [(name[:n], name[n:]) for name in ORCHESTRATION_TOOLS for n in range(1, len(name))]
    parts = {part for cut in cuts for part in cut} - ORCHESTRATION_TOOLS
    assert all(PATTERN.search(part) for part in parts)


@given(OWN, OWN, TEXTS)
def test_what_is_longer_than_a_name_is_found(name, other, text):
    for near in (name + other, f"mcp__{text}__{name}", name + text, text + name, f"{name}\n"):
        assert bool(PATTERN.search(near)) is (near not in ORCHESTRATION_TOOLS)


@given(OWN, st.integers(0, 30), st.characters())
def test_what_differs_in_one_character_is_found(name, place, char):
    near = name[:place] + char + name[place + 1 :]
    assert bool(PATTERN.search(near)) is (near not in ORCHESTRATION_TOOLS)


@given(st.sets(NAMES, min_size=1, max_size=6), TEXTS)
def test_any_names_can_be_left_out(names, text):
    assert bool(re.search(all_but(names), text)) is (text not in names)
