"""What is read without the grammar is read as the grammar reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_policy.shell.grammar import RefusedError
from prsm_policy.shell.reading import read_plain, read_tree

FOREVER = float("inf")
WORDS = [
    "ls", "git", "-la", "--x=y", "a=b", "A=1", "env", "time", "x.py", "HEAD~1", "user@h", "a:b",
    "'a b'", "'|'", "';'", "''", '"y"', '"a;b"', '"it\'s"', "'a\"b'", "2>&1", ">/dev/null", "2",
    "> /dev/null", "&>/dev/null", ">&2", "2>/dev/null/x", "if", "do", "done", "in", "then", "case",
    "coproc", "test", "[", "export", "1", "+x", "--", "-", "%1", ".", "./x.sh", "=", "~", "a~", "!",
    ",", ":", "'#'", "#", "a#b", "*", "$x", "$(ls)", "`ls`", "{a,b}", "\\", "é", "_=1", "'`'",
]  # fmt: skip
GLUE = [*[" "] * 12, " | ", " && ", " || ", "; ", ";", "|", " & ", "\n", "  ", ""]
TEXTS = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GLUE)), max_size=7)


@given(TEXTS.map(lambda pairs: "".join(map("".join, pairs)).strip()))
def test_a_plain_text_says_the_same_with_and_without_the_grammar(text):
    plain = read_plain(text)
    if plain is None:
        return
    try:
        assert plain == read_tree(text, FOREVER)
    except RefusedError:  # the grammar understands less, such as a lone dash before a redirection
        assert all(command.name in WORDS for command in plain.commands)


@pytest.mark.parametrize(
    "text",
    [
        "ls -la", "cat README.md | head -20", "cd src && pytest -q 2>&1 | tail -20", "ls; pwd",
        "rg -n 'def main' src", 'git commit -m "one two"', "git diff HEAD~1 > /dev/null 2>&1",
    ],
)  # fmt: skip
def test_usual_commands_need_no_grammar(text):
    plain = read_plain(text)
    assert plain is not None
    assert plain == read_tree(text, FOREVER)


@pytest.mark.parametrize(
    "text",
    [
        "", " ls", "ls ", "ls  x", "ls\nx", "ls\tx", "ls &", "ls > x", "ls 2>&3", "2>&1 ls", "$x",
        "ls $x", "ls *", "ls ~", "ls ~/x", "x=1 ls", "_=1 ls", "ls '$(x)'", 'ls "$x"', "ls 'a'b",
        "if x; then y; fi", "export x", "ls #", "! ls", "[ x ]", "ls \\x", "ls {a,b}", "é", "a;;b",
        "ls 2>&1 x", "ls |", "; ls", "x" * 401,
    ],
)  # fmt: skip
def test_whatever_may_be_more_than_words_needs_the_grammar(text):
    assert read_plain(text) is None
