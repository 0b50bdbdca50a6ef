"""What counts as a request for a symbol, and what is only talk of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_regions.execution import MOST, find_requests


@pytest.mark.requirement("R15", "R29")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I need the type signature of AuthValidator from /core/src/auth", "AuthValidator"),
        ("I need the signature of `core.parse` in core/parser.py.", "core.parse"),
        ("Please describe the fields of User (from lib/user.ts)", "User"),
        ("What is the definition of Token::new?", "Token::new"),
        ("Tell me the parameters of the function_x.", "function_x"),
    ],
)
def test_a_request_names_a_symbol_in_a_sentence_that_says_where_it_may_be(text, name):
    assert find_requests(f"I looked around.\n{text}\nThe rest is done.") == {name: text}


@pytest.mark.parametrize(
    "text",
    [
        "I changed the signature of parse and its tests pass.",
        "How many folders deep?",
        "We need it soon.",
        "",
    ],
)
def test_talk_of_a_symbol_is_no_request(text):
    assert find_requests(text) == {}


def test_each_is_asked_for_once_and_ten_at_most():
    text = "\n".join(f"I need the type of T{n % 15}." for n in range(40))
    assert len(find_requests(text)) == MOST


@given(st.text(max_size=500))
def test_any_text_can_be_read(text):
    assert all(sentence in text for sentence in find_requests(text).values())
