"""Templates: what is copied from earlier answers, and what cannot be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_demo.script.templates import TemplateError, fill

LETTERS = st.text("abcdefgh", min_size=1, max_size=6)


def test_a_regular_expression_copies_from_the_request():
    assert fill("${/session ID (\\d+)/}", {}, "session ID 1\nsession ID 42") == 42
    assert fill("to ${/<(\\w+)>/}!", {}, "<x> <y>") == "to y!"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | LETTERS,
        lambda inner: st.lists(inner) | st.dictionaries(LETTERS, inner),
    )
)
def test_values_without_templates_stay_as_they_are(value):
    assert fill(value, {}, "") == value


@given(st.dictionaries(LETTERS, st.integers() | LETTERS, min_size=1), st.data())
def test_every_value_of_an_output_can_be_copied(output, data):
    key = data.draw(st.sampled_from(sorted(output)))
    assert fill(f"${{w.{key}}}", {"w": json.dumps(output)}, "") == output[key]


def test_an_output_that_is_no_json_has_no_parts():
    with pytest.raises(TemplateError, match="not in 'plain'"):
        fill("${w.key}", {"w": "plain"}, "")
