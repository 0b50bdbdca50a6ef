"""Why a change was made is what its agent said of reasons shortly before the call."""

import pytest
from prsm_files.session.reasons import LOOKED_AT, find_reason, score


def said(text, kind="text", seq=1):
    return {"kind": kind, "text": text, "seq": seq}


def called(call="c1"):
    return {"kind": "tool_call", "tool": "Edit", "call": call}


def reason_of(entries):
    reason = find_reason(entries, "c1")
    assert reason is not None
    return reason


def test_what_speaks_most_of_reasons_before_the_call_is_why():
    entries = [
        said("Let me look around."),
        said("I will fix the bug in the parser. Then I go on.", "thinking", 2),
        said("I improve the names."),
        called(),
        said("I fix another bug, because it is wrong."),
    ]
    reason = reason_of(entries)
    assert (reason.text, reason.kind, reason.seq) == (
        "I will fix the bug in the parser.",
        "thinking",
        2,
    )
    assert reason.score == 6


def test_of_alike_reasons_the_newest_counts():
    entries = [said("I fix the first."), said("I fix the second."), called()]
    assert reason_of(entries).text == "I fix the second."


def test_only_the_last_entries_before_the_call_are_looked_at():
    old = said("I fix the bug.")
    assert find_reason([old, *[said("Hm.")] * LOOKED_AT, called()], "c1") is None
    assert find_reason([old, *[said("Hm.")] * (LOOKED_AT - 1), called()], "c1") is not None


@pytest.mark.parametrize("entries", [[], [called()], [said("I fix it.")], [said("Hm."), called()]])
def test_without_a_reason_there_is_none(entries):
    assert find_reason(entries, "c1") is None


def test_words_count_by_what_they_say():
    assert (score("fix"), score("fixes a bug"), score("improved"), score("prefix")) == (3, 6, 2, 0)
