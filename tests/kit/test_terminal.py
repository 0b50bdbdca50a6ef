"""Text that acts on nothing: over all of Unicode, by its own data."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prsm_core.kit import one_line, readable_tail
from prsm_core.kit.terminal import LONGEST_LINE, acts_on_terminal
from prsm_core.kit.text import escape_prose
from prsm_core.testing.harmless_contract import acting_characters

EVERY = [chr(code) for code in range(sys.maxunicode + 1)]
ACTING = {*acting_characters(), *(char for char in EVERY if unicodedata.category(char) == "Cs")}
FORMAT = [char for char in EVERY if unicodedata.category(char) == "Cf"]


@pytest.mark.requirement("D9")
def test_what_acts_is_what_unicode_says_of_every_character():
    assert {char for char in EVERY if acts_on_terminal(char)} == ACTING
    assert {"\u061c", "\u200e", "\u200f", "\u202e", "\u2066"} <= ACTING


@pytest.mark.requirement("D9")
@pytest.mark.parametrize("start", range(0, 0x800, 0x100))
def test_no_acting_character_is_left_in_a_line(start):
    for char in sorted(ACTING)[start : start + 0x100]:
        assert one_line(f"a{char}b") in ("ab", "a b"), hex(ord(char))
        assert readable_tail(f"a{char}b").replace("\n", " ") in ("ab", "a b"), hex(ord(char))


@pytest.mark.parametrize("char", FORMAT, ids=lambda char: f"{ord(char):04x}")
def test_a_format_character_that_only_joins_or_marks_stays(char):
    if char in ACTING:
        assert one_line(f"a{char}b") == "ab"
    else:
        assert one_line(f"a{char}b") == f"a{char}b" == escape_prose(f"a{char}b")


@given(st.text(alphabet=st.characters(), max_size=80))
@example("\x1b\x1b[31m[31mred\x1b]0;x\x07")
@example("\x9b31m\x1bPq\x1b\\")
def test_a_line_is_one_line_and_said_again_it_stays_the_same(text):
    line = one_line(text)
    assert not set(line) & ACTING
    assert one_line(line) == line


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"])))
def test_letters_and_signs_stay_as_they_are(text):
    assert one_line(text) == (text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]} …")


def test_sequences_go_as_a_whole_and_spaces_become_one():
    assert one_line("\x1b]52;c;cm0=\x07a\x1b[31m\tb\u202e\n c\u2028d") == "a b c d"
    assert one_line("\x1b[1;31mred\x1b[0m\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\") == "redlink"


def test_a_long_line_is_cut_with_a_mark():
    assert one_line("x" * 600) == "x" * 500 + " …"


def test_the_tail_is_the_last_five_lines_that_tell_something():
    noise = re.compile(r"^at \S|known noise")
    assert readable_tail("\n".join("abcdefg")) == "c\nd\ne\nf\ng"
    assert readable_tail("cause\n\n at x.js:1\n some known noise\n", noise) == "cause"
    assert readable_tail("\x1b[2mat\x1b[0m x.js\n", noise) == ""
    assert readable_tail("") == ""
