"""The text of a headless turn."""

from __future__ import annotations

from prsm_gemini.headless import GO_ON, escaped, turn_text
from prsm_testing.doubles import turn_context


def test_a_message_is_sent_as_it_is():
    assert turn_text(turn_context("Count."), None) == "Count."


def test_history_stands_before_the_message():
    text = turn_text(turn_context("Go on.", ("user", "Count."), ("assistant", "Two.")), None)
    assert text.index("[user]\n> Count.") < text.index("[assistant]\n> Two.") < text.index("Go on.")


def test_a_lost_prompt_is_sent_again_but_not_twice():
    assert turn_text(turn_context(None), "Count.") == "Count."
    assert turn_text(turn_context("More."), "Count.") == "Count.\n\nMore."
    assert turn_text(turn_context("Count."), "Count.") == "Count."


def test_a_turn_that_only_goes_on_says_so():
    assert turn_text(turn_context(None), None) == GO_ON


def test_no_file_is_read_because_a_prompt_mentions_it():
    text = escaped("See @a.txt and x@y.z, not @ this.")
    assert text.startswith("See \\@a.txt and x\\@y.z, not @ this.\n\n")
    assert "stands for @" in text
    assert escaped(text) == text


def test_no_command_is_run_because_a_prompt_looks_like_one():
    assert escaped("/help me") == "The message:\n/help me"
    assert escaped(" ? why") == "The message:\n ? why"
    assert escaped("a/b") == "a/b"
