"""Escaping and the words for times and tokens."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.builtin.text import (
    escape_exact,
    escape_prose,
    format_duration,
    format_usage,
    one_line,
)
from prsm_core.domain.usage import TokenUsage


@given(st.text(alphabet=st.characters()))
def test_prose_keeps_no_control_character_but_newline_and_tab(text):
    kept = set(escape_prose(text)) - set("\n\t")
    assert not {char for char in kept if unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}}
    assert not {char for char in kept if unicodedata.bidirectional(char)[1:] in {"LE", "RE"}}


@given(st.text(alphabet=st.characters()))
def test_exact_text_is_printable_and_on_one_line(text):
    assert escape_exact(text).isprintable()


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"])))
def test_letters_and_signs_stay_as_they_are(text):
    assert escape_prose(text) == escape_exact(text) == text


def test_what_hides_is_spelled_out():
    assert escape_exact("a\n\t\r\u00a0\u200d\U000e0001") == "a\\n\\t\\r\\xa0\\u200d\\U000e0001"
    assert escape_prose("a\r\nb\rc\u2028\ud800") == "a\nb\\rc\\u2028\\ud800"


def test_one_line_cuts_with_a_mark():
    assert one_line("  first\nsecond") == "first…"
    assert one_line("x" * 30, 10) == "x" * 10 + "…"
    assert one_line(" \n ") == ""


@pytest.mark.requirement("E81", "E82")
@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "unknown"), (0.4, "0s"), (32, "32s"), (74, "1m 14s"), (60, "1m 00s"), (7500, "2h 05m")],
)
def test_durations_read_like_a_clock(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (TokenUsage(), "unknown tokens"),
        (TokenUsage(total_tokens=1234), "1,234 tokens"),
        (TokenUsage(input_tokens=5, output_tokens=0), "tokens: 5 in, 0 out"),
        (TokenUsage(output_tokens=7), "tokens: unknown in, 7 out"),
    ],
)
def test_an_unknown_count_is_never_zero(usage, text):
    assert format_usage(usage) == text
