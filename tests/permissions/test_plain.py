"""Plain text is split as bash splits it; everything else is not plain."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.permissions.plain import split_plain


def words(text):
    commands = split_plain(text)
    return None if commands is None else [list(command.texts) for command in commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls -la | wc -l", [["ls", "-la"], ["wc", "-l"]]),
        ("a&&b||c;d\ne", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("a |\n b", [["a"], ["b"]]),
        ("# one\nls # two\n\n", [["ls"]]),
        ("echo a#b '#c'", [["echo", "a#b", "#c"]]),
        ("echo 'a b'\"c'd\"e\\ f", [["echo", "a bc'de f"]]),
        (r'grep "a\"b\\c\d$" f', [["grep", r'a"b\c\d$', "f"]]),
        ("ls 2>/dev/null >&2 2>&1 &>/dev/null > /dev/null", [["ls"]]),
        ("echo 2 >/dev/null", [["echo", "2"]]),
        ("[ -f x ]", [["[", "-f", "x", "]"]]),
        ("", []),
    ],
)
def test_plain_text_is_split_into_commands_and_words(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ls &", "ls;;ls", "; ls", "ls |", "&& ls", "ls && ; ls", "(ls)", "{ ls; }", "ls {a,b}",
        "ls $x", 'ls "$x"', "ls `x`", "ls > x", "ls >> x", "ls >| x", "ls 3>/dev/null",
        "ls 2> x", "ls &> x", "ls <<x", "ls <<<x", "ls <(x)", "ls <>x", "ls <&3", "ls |& wc",
        "ls >/dev/nullx", "ls 2>&1x", "ls 'x", 'ls "x', "ls \\", "l\\\ns", "ls\rx", "ls\0",
        "ls \x1b[0m", "ls\u00a0x", "ls \u202ex", "ls \u200bx", "A=1", "ls " * 600, "x" * 20_001,
    ],
)  # fmt: skip
def test_everything_else_is_not_plain(text):
    assert split_plain(text) is None


def test_variables_input_files_patterns_tildes_and_pipes_are_told():
    first, second = split_plain("A=1 LC_ALL='x y' cat <in *.py '*' ~/x '~' | wc") or ()
    assert first.assigned == ("A", "LC_ALL")
    assert [word.text for word in first.reads] == ["in"]
    assert [(word.glob, word.tilde) for word in first.words[1:]] == [
        (True, False),
        (False, False),
        (False, True),
        (False, False),
    ]
    assert first.piped
    assert second.piped


LITERAL = st.text(st.sampled_from("ab -=~#!\"'\\;|&<>*?[]\t"), min_size=1, max_size=6)


@given(st.lists(LITERAL, min_size=1, max_size=4))
def test_quoted_words_come_back_as_they_were(texts):
    assert words(shlex.join(["x", *texts])) == [["x", *texts]]


@given(st.text(st.sampled_from("ab \t\"'\\#=~"), max_size=12))
def test_words_are_those_that_bash_sees(text):
    commands = split_plain(f"printf '%s\\0' . {text}")
    if commands is None or any(word.tilde for command in commands for word in command.words):
        return
    shown = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' . {text}"], capture_output=True, check=True
    )
    assert shown.stdout.decode().split("\0")[:-1] == list(commands[0].texts[2:])
