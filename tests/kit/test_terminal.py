"""Text that acts on nothing: over all of Unicode, by its own data."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import defaultdict
from functools import cache
from itertools import chain

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from prsm_testing.provider_contract import acting_characters

from prsm_core.kit import one_line, readable_tail
from prsm_core.kit.terminal import LONGEST_LINE, replace_acting
from prsm_core.kit.text import escape_exact, escape_prose

# What stays in its place: between pictures, or behind one; see below.
KEPT = set("\u200c\u200d\ufe0e\ufe0f")


def acts(char):
    return replace_acting(char, lambda _: "") == ""


@cache
def every_character():
    """Return all characters by their category."""
    characters = defaultdict(list)
    for char in map(chr, range(sys.maxunicode + 1)):
        characters[unicodedata.category(char)].append(char)
    return characters


@cache
def acting():
    return {*acting_characters(), *every_character()["Cs"]}


@pytest.mark.requirement("D9")
def test_what_acts_is_what_unicode_says_of_every_character():
    # What is not assigned yet shows nothing where it is reserved for that.
    named = (chars for category, chars in every_character().items() if category != "Cn")
    assert set(filter(acts, chain.from_iterable(named))) == acting()
    assert {"\u061c", "\u200e", "\u200f", "\u202e", "\u2066", "\u200b", "\ufeff"} <= acting()


@pytest.mark.requirement("D9")
def test_no_acting_character_is_left_in_a_line():
    for char in acting():
        assert one_line(f"a{char}b") in ("ab", "a b"), hex(ord(char))
        assert readable_tail(f"a{char}b").replace("\n", " ") in ("ab", "a b"), hex(ord(char))


def test_a_format_character_that_is_seen_or_marks_signs_stays():
    for char in every_character()["Cf"]:
        text = f"a{char}b"
        if char in acting():
            assert one_line(text) == "ab", hex(ord(char))
        else:
            assert one_line(text) == text == escape_prose(text), hex(ord(char))


@given(st.text(alphabet=st.characters(), max_size=80))
@example("\x1b\x1b[31m[31mred\x1b]0;x\x07")
@example("\x9b31m\x1bPq\x1b\\")
def test_a_line_is_one_line_and_said_again_it_stays_the_same(text):
    line = one_line(text)
    assert not set(line) & acting() - KEPT
    assert one_line(line) == line


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"])))
def test_letters_and_signs_stay_as_they_are(text):
    assume(not set(text) & acting())  # letters that show nothing
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


WHOLE = {
    "a family": "👩\u200d👩\u200d👧",
    "a colour of skin": "👩🏽\u200d💻",
    "a heart on fire": "❤\ufe0f\u200d🔥",
    "a warning": "⚠\ufe0f",
    "a sign as text": "©\ufe0e",
    "a key": "1\ufe0f\u20e3",
    "Persian": "می\u200cکنم",
    "Hindi": "क्\u200dष",
}


@pytest.mark.requirement("D9")
@pytest.mark.parametrize("what", WHOLE)
def test_what_a_picture_or_a_script_needs_stays(what):
    for text in (WHOLE[what], f"see {WHOLE[what]}.", f"{WHOLE[what]}{WHOLE[what]}"):
        assert escape_prose(text) == one_line(text) == text


HIDES = [
    "\u200b", "\u200c", "\u200d", "\u2060", "\u2063", "\ufeff", "\u00ad", "\u180e", "\u034f",
    "\u3164", "\U000e0001", "\U000e0041", "\U000e007f", "\ufe00", "\ufe0f", "\U000e0100",
    "\u202e", "\u2066", "\u061c",
]  # fmt: skip


@pytest.mark.requirement("D9")
@pytest.mark.parametrize("char", HIDES, ids=ascii)
def test_what_hides_in_a_text_is_spelled_out_or_dropped(char):
    code = f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"
    code = code if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
    for text in ("pass{}word", "{}rm -rf", "end{}", "1{}2", "文{}字", "{}", "a👩 {}", "👩{}{}{}"):
        said = text.replace("{}", char)
        shown = escape_prose(said)
        if text == "👩{}{}{}" and char in "\ufe0f":
            shown = shown.replace("👩\ufe0f", "👩" + code)  # one may follow a picture
        assert shown == escape_exact(said).replace("👩\ufe0f", "👩" + code)
        assert shown == text.replace("{}", code)
        assert char not in one_line(said).replace("👩\ufe0f", "")


@pytest.mark.requirement("D9")
def test_a_line_that_is_cut_within_a_picture_has_no_joiner_at_its_end():
    assert one_line("x" * (LONGEST_LINE - 2) + "👩\u200d👧") == "x" * (LONGEST_LINE - 2) + "👩 …"
