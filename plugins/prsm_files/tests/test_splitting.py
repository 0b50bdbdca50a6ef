"""What became of a file is split into what a call says it did, and the rest."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_files.changes.attribution import Cell, Edit, Replacement
from prsm_files.changes.splitting import Part, split

LINES = "".join(f"line {n}\n" for n in range(6))


def edit(*replacements, **more):
    return Edit(path="a", replacements=replacements, **more)


def steps(before, after, wanted):
    """Return what the file held step by step, and whether the call explains each step."""
    parts = split(_bytes(before), _bytes(after), wanted)
    return [(None if one.text is None else one.text.decode(), one.is_explained) for one in parts]


def _bytes(text):
    return None if text is None else text.encode()


MINE = Replacement("line 2\n", "mine\n")
LINE_BASED = Replacement("line 1\nline 2\n", "line 1\nmine\n", is_lines=True)
EDITED = LINES.replace("line 2", "mine")


@pytest.mark.parametrize("one", [MINE, LINE_BASED])
@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (LINES, []),
        (EDITED, [(EDITED, True)]),
        (EDITED + "theirs\n", [(EDITED, True), (EDITED + "theirs\n", False)]),
        ("theirs\n" + EDITED, [(EDITED, True), ("theirs\n" + EDITED, False)]),
        (LINES + "theirs\n", [(LINES + "theirs\n", False)]),
        (LINES.replace("line 2", "theirs"), [(LINES.replace("line 2", "theirs"), False)]),
        (LINES.replace("line 2\n", ""), [(LINES.replace("line 2\n", ""), False)]),
        (None, [(None, False)]),
    ],
)
def test_lines_that_a_call_replaced_are_its_own_and_no_others(one, after, expected):
    assert steps(LINES, after, edit(one)) == expected


def test_what_a_call_replaced_of_lines_that_somebody_wrote_first_is_its_own():
    between = LINES.replace("line 2", "theirs")
    after = LINES.replace("line 2", "mine")
    told = steps(LINES, after, edit(Replacement("theirs", "mine")))
    assert told == [(between, False), (after, True)]


def test_of_several_replacements_each_is_looked_for():
    two = edit(Replacement("line 1", "one"), Replacement("theirs", "two"))
    middle = LINES.replace("line 1", "one")
    after = middle.replace("line 4", "two")
    told = steps(LINES, after, two)
    assert told == [(middle, True), (middle.replace("line 4", "theirs"), False), (after, True)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "mine\n", [("mine\n", True)]),
        (None, "mine\r\n", [("mine\r\n", True)]),
        (None, "mine", [("mine", True)]),
        (None, "mine\ntheirs\n", [("mine\n", True), ("mine\ntheirs\n", False)]),
        (None, "theirs\n", [("theirs\n", False)]),
        ("old\n", "mine\n", [("mine\n", True)]),
        ("old\n", "old\ntheirs\n", [("old\ntheirs\n", False)]),
        ("old\n", None, [(None, False)]),
    ],
)
def test_a_text_that_a_call_wrote_is_its_own_as_far_as_it_is_there(before, after, expected):
    assert steps(before, after, Edit(path="a", content="mine\n")) == expected


def test_a_bracket_that_is_there_anyway_is_no_sign_of_a_call():
    after = "f {\n}\ntheirs {\n}\n"
    assert steps("f {\n}\n", after, Edit(path="a", content="f {\n}\nmine {\n}\n")) == [
        (after, False)
    ]


@pytest.mark.parametrize(
    ("removes", "after", "explained"),
    [(True, None, True), (True, "x", False), (False, None, False)],
)
def test_a_file_that_is_gone_is_explained_by_its_removal(removes, after, explained):
    wanted = Edit(path="a", is_removed=removes, content=None if removes else "mine\n")
    assert steps("old\n", after, wanted) == [(after, explained)]


def test_lines_are_found_where_blanks_differ_and_behind_those_before_them():
    text = "a\nx\nb\n  x  \nc\n"
    hunks = [
        Replacement("b\n", "b\n", is_lines=True),
        Replacement("x\n", "mine\n", is_lines=True),
    ]
    assert steps(text, "a\nx\nb\nmine\nc\n", edit(*hunks)) == [("a\nx\nb\nmine\nc\n", True)]


def test_lines_at_the_end_of_a_file_without_a_newline():
    added = Replacement("a\n", "a\nmine\n", is_lines=True)
    assert steps("a", "a\nmine\n", edit(added)) == [("a\nmine\n", True)]


def test_ends_of_lines_are_those_of_the_file():
    assert steps("a\r\nb\r\n", "a\r\nc\r\n", edit(Replacement("a\nb\n", "a\nc\n"))) == [
        ("a\r\nc\r\n", True)
    ]


def notebook(*sources, **more):
    cells = [{"cell_type": "code", "source": [one], "metadata": {}, **more} for one in sources]
    return json.dumps({"cells": cells, "nbformat": 4})


@pytest.mark.parametrize(
    ("source", "after", "explained"),
    [
        ("mine", notebook("a", "mine"), True),
        ("mine", notebook("a", "b", "mine"), True),
        ("mine", notebook("theirs", "mine"), False),
        ("mine", notebook("a", "theirs"), False),
        (None, notebook("a"), True),
        (None, notebook("b", "c"), False),
        ("mine", "no notebook", False),
    ],
)
def test_a_cell_of_a_notebook_is_explained_if_nothing_else_differs(source, after, explained):
    wanted = Edit(path="a", cell=Cell(source))
    assert steps(notebook("a", "b"), after, wanted) == [(after, explained)]


words = st.sampled_from(["alpha", "beta", "}", "", "same"])
old_lines = st.lists(words, max_size=8)


def marked(who):
    """Lines that somebody adds at places, each with a mark that tells who."""
    return st.lists(st.tuples(st.integers(0, 8), st.just(who)), max_size=3)


def with_lines(lines, added, start=0):
    made = list(lines)
    for number, (place, who) in enumerate(added, start):
        made.insert(min(place, len(made)), f"{who} {number}")
    return made


def without_some(lines, gone):
    return [line for place, line in enumerate(lines) if place not in gone]


def text_of(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def changed_lines(old, new):
    """Return the lines that a step adds and removes."""
    counts = Counter(new.decode().splitlines())
    counts.subtract(old.decode().splitlines())
    return [line for line, count in counts.items() if count]


@given(
    old_lines,
    marked("theirs"),
    marked("mine"),
    marked("later"),
    st.sets(st.integers(0, 8), max_size=2),
    st.booleans(),
    st.booleans(),
)
def test_no_line_of_anybody_else_is_explained(old, first, own, later, gone, is_whole, has_run):
    """Whoever wrote before the call, or behind it, and whether it did anything at all."""
    before = list(old)
    seen = with_lines(before, first)
    made = with_lines(seen, own, 100) if has_run else seen
    after = without_some(with_lines(made, later, 200), gone)
    if is_whole:
        wanted = Edit(path="a", content=text_of(with_lines(seen, own, 100)).decode())
    else:
        told = text_of(seen).decode(), text_of(with_lines(seen, own, 100)).decode()
        wanted = edit(Replacement(*told, is_lines=True))
    parts = split(text_of(before), text_of(after), wanted)
    texts = [text_of(before), *(one.text for one in parts)]
    assert texts[-1] == text_of(after)
    assert all(one != other for one, other in pairwise(texts))
    for (old_text, new_text), part in zip(pairwise(texts), parts, strict=True):
        if part.is_explained:
            lines = {line.split()[0] for line in changed_lines(old_text, new_text) if line.split()}
            assert "later" not in lines
            # What a call writes as all of a file is its own, whoever wrote a line of it first.
            assert is_whole or "theirs" not in lines


@given(old_lines, st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_a_call_that_ran_and_another_hand_far_from_it_are_told_apart(old, place, other, is_first):
    """With lines between them all that the call did is explained."""
    head, tail = ["head 1", "head 2", "head 3"], ["tail 1", "tail 2", "tail 3"]
    before = [*head, *old, *tail]
    own = Replacement("head 2\n", "mine\n")
    made = [line if line != "head 2" else "mine" for line in before]
    spot = len(head) + min(place, len(old))
    after = [*made[:spot], "theirs", *made[spot:]]
    parts = split(text_of(before), text_of(after), edit(own))
    assert [one.is_explained for one in parts] == [True, False]
    assert parts[0] == Part(text_of(made), True)
