"""The text of a turn."""

from __future__ import annotations

from prsm_codex.turn import turn_text
from prsm_testing.doubles import turn_context


def test_a_prompt_is_sent_as_it_is():
    assert turn_text(turn_context("do it")) == "do it"


def test_without_a_prompt_there_is_no_text():
    assert turn_text(turn_context(None)) is None


def test_the_lost_history_stands_before_the_prompt():
    text = turn_text(turn_context("now this", ("user", "count"), ("assistant", "1, 2")))
    assert text == (
        "<conversation_so_far>\n[user]\n> count\n\n[assistant]\n> 1, 2\n</conversation_so_far>\n\n"
        "now this"
    )


def test_a_history_without_a_prompt_asks_to_go_on():
    text = turn_text(turn_context(None, ("user", "count")))
    assert text is not None
    assert text.endswith("Continue where the conversation stopped.")
