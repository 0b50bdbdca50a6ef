"""The table of what programs are told to run is whole, and read as it is written."""

from __future__ import annotations

import re

import pytest
from prsm_policy.shell import Word
from prsm_policy.shell.runners import RUNNERS, told
from prsm_policy.tables import read_rows

KINDS = {"code", "runs", "verbs", "word", "value"}


def test_every_program_has_one_row_of_known_kinds():
    rows = list(read_rows("runners"))
    names = [name for head, _ in rows for name in head.split()]
    assert len(names) == len(set(names)) == len(RUNNERS)
    assert {kind for _, fields in rows for kind in fields} == KINDS


def test_every_row_names_options_or_words():
    for name, row in RUNNERS.items():
        assert row.code or row.runs or row.verbs or row.word or row.value, name
        assert all(re.fullmatch(r"-[\w.+-]+|connect|pty|init|disconnect|plugin|file|call", option)
                   for option in row.code | row.runs), name  # fmt: skip
        assert not [verb for verb in row.verbs if verb.startswith("-")], name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gnuplot -e x", [("-e", "x", False)]),
        ("gnuplot -ex", [("-e", "x", False)]),
        ("gnuplot -persist a", []),
        ("tcpdump -z x", [("-z", "x", True)]),
        ("tcpdump -Gz x", [("-z", "x", True)]),
        ("tcpdump --postrotate-command=x", [("--postrotate-command", "x", True)]),
        ("nim --gcc.exe:x c", [("--gcc.exe:x", "x", True)]),
        ("apt-get -o A::B::=x", [("A::B::=x", "x", True)]),
        ("socat EXEC:x,pty -", [("EXEC:x,pty", "x pty", True)]),
        ("ssh -oProxyCommand=x h", [("-oProxyCommand=x", "x", True)]),
        ("rails r x y", [("r", " x y", False)]),
        ("rails server r", []),
        ("python3.11 -c x", [("-c", "x", False)]),
        ("gnuplot", []),
        ("gnuplot -e", [("-e", "", False)]),
    ],
)
def test_what_a_program_is_told_is_found(text, expected):
    words = [Word(each) for each in text.split()]
    found = told(words[0].text, words)
    assert [(each.option, each.text, each.is_command) for each in found] == expected
