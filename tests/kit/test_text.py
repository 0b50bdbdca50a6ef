"""Escaping and the words for times."""

import re
import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from prsm_core.kit.terminal import replace_acting
from prsm_core.kit.text import (
    call_text,
    command_lines,
    escape_command,
    escape_exact,
    escape_prose,
    first_line,
    format_duration,
)


def acts(char):
    return replace_acting(char, lambda _: "") == ""


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
    assume(not any(map(acts, text)))  # letters that show nothing
    assert escape_prose(text) == escape_exact(text) == text


def test_what_hides_is_spelled_out():
    assert escape_exact("a\n\t\r\u00a0\u200d\U000e0001") == "a\\n\\t\\r\\xa0\\u200d\\U000e0001"
    assert escape_prose("a\r\nb\rc\u2028\ud800") == "a\nb\\rc\\u2028\\ud800"


# What hides, joins, turns round or acts, mixed with what looks like an escape.
TRICKY = st.text(
    st.one_of(
        st.sampled_from(
            "\\\\\\xuU0a1b4e\x1b\x07\r\n\t\x7f\x9b \u00a0\u200b\u202e\u2066\ufeff\u3164\u0301é"
        ),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
)


@pytest.mark.requirement("D9")
@given(TRICKY)
def test_a_command_is_shown_without_any_character_that_hides_or_acts(text):
    for shown in (escape_command(text), *command_lines(text)):
        assert shown.isprintable()
        kinds = {unicodedata.category(char) for char in shown}
        assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me"}
        assert not any(char.isspace() and char != " " for char in shown)


@pytest.mark.requirement("D9")
@given(TRICKY)
@example("\\x1b")
@example("\x1b")
@example("\\\x1b")
@example("\\\\x1b")
def test_no_two_commands_look_the_same(text):
    assert read_back(escape_command(text)) == text
    assert "\n".join(map(read_back, command_lines(text))) == text


def read_back(shown):
    """Return the command that is shown so."""
    digits = "|".join(f"{kind}([0-9A-Fa-f]{{{n}}})" for kind, n in (("x", 2), ("u", 4), ("U", 8)))

    def meant(match):
        slashes, code = len(match[1]), match[2] or match[3] or match[4]
        if code is None:
            return "\\" * (slashes // 2) + match[5]
        last = chr(int(code, 16)) if slashes % 2 else match[0][slashes:]
        return "\\" * (slashes // 2) + last

    return re.sub(rf"(\\*)(?:{digits}|([^\x20-\x7e]))", meant, shown)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("grep 'a\\.b' \\n x", "grep 'a\\.b' \\n x"),
        ("echo \\x41", "echo \\\\x41"),
        ("rm\u200b -rf\u00a0/", "rm\\u200b -rf\\xa0/"),
        ("ls \x1b[2K\rrm -rf /", "ls \\x1b[2K\\x0drm -rf /"),
        ("ls # \u202egnihton", "ls # \\u202egnihton"),
        ("cat Übung.txt", "cat Übung.txt"),
    ],
)
def test_a_command_stays_as_it_is_but_for_what_hides(command, shown):
    assert command_lines(command) == [shown]


def test_one_line_cuts_with_a_mark():
    assert first_line("  first\nsecond") == "first…"
    assert first_line("x" * 30, 10) == "x" * 10 + "…"
    assert first_line(" \n ") == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "unknown"), (0.4, "0s"), (32, "32s"), (74, "1m 14s"), (60, "1m 00s"), (7500, "2h 05m")],
)
def test_durations_read_like_a_clock(seconds, text):
    assert format_duration(seconds) == text


def test_what_a_call_came_to_says_each_thing_once():
    long = "x" * 400
    assert call_text("out\nput", "exit code 3") == "exit code 3\nout\nput"
    assert call_text(f"{long}\nmore", f"{long} …") == f"{long}\nmore"
    assert call_text(None, "why") == "why"
    assert call_text("", None) == ""
