"""The text of a prompt."""

from __future__ import annotations

from prsm_acp.session import prompt_text
from prsm_testing.doubles import turn_context


def test_the_role_stands_before_the_first_message_and_says_whom_to_trust():
    text = prompt_text(turn_context("Do it."), "You are w1.", has_tools=True)
    assert text.startswith("<role>\nThe tools of the MCP server `prsm`")
    assert text.endswith("\nYou are w1.\n</role>\n\nDo it.")


def test_without_tools_there_is_nobody_to_trust():
    text = prompt_text(turn_context("Do it."), "You are w1.", has_tools=False)
    assert text == "<role>\nYou are w1.\n</role>\n\nDo it."


def test_later_prompts_are_the_message_alone():
    assert prompt_text(turn_context("More."), None, has_tools=True) == "More."


def test_a_turn_that_only_goes_on_says_so():
    assert prompt_text(turn_context(None), None, has_tools=True).startswith("Continue")


def test_after_a_rebuild_the_conversation_stands_before_the_message():
    context = turn_context("Go on.", ("user", "Count."), ("assistant", "Two."))
    assert prompt_text(context, None, has_tools=True) == (
        "<conversation_so_far>\n[user]\n> Count.\n\n[assistant]\n> Two.\n</conversation_so_far>"
        "\n\nGo on."
    )
