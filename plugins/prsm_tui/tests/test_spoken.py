"""Texts that come in pieces: wherever they are cut, and whatever is lost or told twice."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_tui.model.spoken import LOST, MOST, Spoken, shown

TEXTS = st.text(
    st.sampled_from("ab1 \n\r\té文́\x1b\u202e[👩🏽❤\u200d\ufe0f\u20e3\u200bکی\u200c"), max_size=40
)


def cut(text, places):
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [(begin, text[begin:end]) for begin, end in itertools.pairwise(edges)]


@settings(deadline=None, max_examples=100)
@given(TEXTS, st.lists(st.integers(0, 100), max_size=6))
def test_a_text_is_the_same_wherever_it_is_cut(text, places):
    whole, pieces = Spoken(), Spoken()
    whole.take(0, text + ".")
    for at, piece in cut(text + ".", places):
        pieces.take(at, piece)
    assert pieces.text == whole.text == shown(text + ".")


@settings(deadline=None, max_examples=100)
@given(TEXTS, st.lists(st.integers(0, 100), max_size=6), st.lists(st.integers(0, 100), max_size=6))
def test_what_is_told_again_adds_nothing(text, places, again):
    spoken = Spoken()
    for at, piece in cut(text + ".", places):
        spoken.take(at, piece)
    before = spoken.text
    assert not any(spoken.take(at, piece) for at, piece in cut(text + ".", again))
    assert spoken.text == before


def test_a_piece_that_overlaps_adds_what_is_beyond():
    spoken = Spoken()
    spoken.take(0, "abcd")
    assert spoken.take(2, "cdef")
    assert spoken.text == "abcdef"


def test_where_a_piece_was_lost_a_sign_stands():
    spoken = Spoken()
    spoken.take(0, "ab")
    spoken.take(5, "fg")
    spoken.take(7, "h")
    assert spoken.text == f"ab{LOST}fgh"


def test_what_acts_on_a_terminal_is_text():
    assert shown("\x1b]0;owned\x07[bold]\u202egnp") == "\\x1b]0;owned\\x07[bold]\\u202egnp"


def test_a_text_that_nobody_would_read_to_its_end_is_cut_and_says_so():
    text = shown("x" * (MOST + 1_234))
    assert text.startswith("x" * MOST + LOST)
    assert "1,234 more characters" in text
