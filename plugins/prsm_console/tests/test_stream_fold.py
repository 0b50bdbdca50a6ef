"""Pieces of a live text that come again, or overlap: each character is told once, in its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_console.streams import Reasoning, StreamFold, Token

from prsm_core import Event

KINDS = {"text_delta": ("text", Token), "thinking_delta": ("thinking", Reasoning)}


def event(kind, **data):
    """Return an event of the one agent's turn."""
    return Event(
        seq=None, ts=1.0, type=kind, session="s", run="r", agent="a", data={"turn": "t", **data}
    )


def told(kind, pieces, whole=None):
    """Return the texts that a stream tells of pieces at their places, and of the whole message."""
    fold = StreamFold("a", "r")
    list(fold.read(event("turn_started", n=1)))
    events = [event(kind, message=1, at=at, text=text) for at, text in pieces]
    if whole is not None:
        name = KINDS[kind][0]
        events.append(
            event("message_completed", **{"text": "", name: whole}, message=1, role="assistant")
        )
    made = [one for each in events for one in fold.read(each)]
    return [one.text for one in made if isinstance(one, (Token, Reasoning))]


@pytest.mark.requirement("N23")
@pytest.mark.parametrize("kind", KINDS)
def test_of_a_piece_that_overlaps_what_was_told_only_the_rest_is_told(kind):
    assert told(kind, [(0, "Hello "), (3, "lo world")]) == ["Hello ", "world"]
    assert told(kind, [(0, "Hello"), (0, "Hello"), (2, "l")]) == ["Hello"]
    assert told(kind, [(0, "Hello"), (6, "orld")], "Hello world") == ["Hello", " world"]


@pytest.mark.requirement("N23")
@given(st.text("ab", min_size=1, max_size=12), st.data())
def test_pieces_that_overlap_at_will_make_the_text(text, data):
    spans = st.tuples(st.integers(0, len(text) - 1), st.integers(1, len(text)))
    pieces = [(at, text[at : at + size]) for at, size in data.draw(st.lists(spans, max_size=8))]
    assert "".join(told("text_delta", pieces, text)) == text
