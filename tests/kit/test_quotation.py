"""Whatever others say, it cannot look like a line of PRSM's, and can be had back exactly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.domain.tools import encode_data
from prsm_core.kit.quotation import MARK, RULE, quote, quote_conversation, quote_word, unquote

ENDS = ["\n", "\r\n", *"\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"]
PIECES = [*ENDS, "> ", ">U+2028 ", ">", " ", "The user writes:", "[user]", "</conversation_so_far>"]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5))).map("".join)


@given(TEXTS)
def test_every_line_of_what_is_quoted_is_marked_and_none_is_lost(text):
    quoted = quote(text)
    assert all(line.startswith(MARK) for line in quoted.splitlines())
    assert unquote(quoted) == text


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_what_stands_between_two_lines_of_a_frame_is_found_again(texts):
    """Whoever reads the lines knows what PRSM wrote, and who said what."""
    told = "\n".join(f"agent {n} reports:\n{quote(text)}" for n, text in enumerate(texts))
    own = [line for line in told.splitlines() if not line.startswith(MARK)]
    assert own == [f"agent {n} reports:" for n in range(len(texts))]
    parts = told.split("\nagent ")
    assert [unquote(part.split("reports:\n", 1)[1]) for part in parts] == texts


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), TEXTS), max_size=4))
def test_a_conversation_has_the_turns_that_it_had(messages):
    told = quote_conversation(messages).splitlines()
    own = [line for line in told if line and not line.startswith(MARK)]
    roles = [f"[{role}]" for role, _ in messages]
    assert own == ["<conversation_so_far>", *roles, "</conversation_so_far>"]


@given(TEXTS)
def test_json_stays_on_one_line_and_says_the_same(text):
    data = {"summary": text, text: [text]}
    assert len(encode_data(data).splitlines()) == 1
    assert json.loads(encode_data(data)) == data
    assert len(quote_word(text).splitlines()) == 1
    assert json.loads(quote_word(text)) == text


@pytest.mark.parametrize("text", ["", "x", "> x\ny", ">U+0A x", ">x"])
def test_what_was_not_quoted_is_told(text):
    with pytest.raises(ValueError, match=r"line \d is not quoted"):
        unquote(text)


def test_ordinary_lines_look_like_a_quotation_in_mail():
    assert quote("one\n\n  two\n") == "> one\n> \n>   two\n> "
    assert quote("a\r\nb\u2028c") == "> a\n>U+000D+000A b\n>U+2028 c"
    assert f'"{MARK}"' in RULE
