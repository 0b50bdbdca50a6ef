"""What the CLI says, read with care."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prsm_claude.events import Translator, TurnResult, UsageMeter, blocks

from prsm_core.domain.turns import ProviderEvent

NAMES = """assistant user system stream_event rate_limit_event result init rejected text thinking
    tool_use tool_result message_start content_block_delta text_delta message_delta message_stop
    api_retry Bash mcp__prsm__note"""
FIELDS = """type subtype message content event delta text thinking id name input tool_use_id
    is_error usage model error rate_limit_info status resetsAt mcp_servers errors result
    api_error_status terminal_reason stop_reason modelUsage total_cost_usd input_tokens
    contextWindow"""
WORDS, KEYS = st.sampled_from(NAMES.split()), st.sampled_from(FIELDS.split())
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(KEYS, ODD, max_size=6), max_size=4))
def test_nothing_that_the_cli_may_say_is_too_odd(messages):
    translator = Translator(UsageMeter())
    for message in messages:
        assert all(isinstance(event, ProviderEvent) for event in translator.feed(message))
        found = translator.finish(TurnResult.read(message))
        assert all(isinstance(event, ProviderEvent) for event in found)


def test_a_result_tells_its_errors_or_else_its_answer():
    failed = TurnResult.read({"is_error": True, "errors": ["a", 5], "result": "x"})
    assert (failed.is_error, failed.text) == (True, "a; 5")
    assert TurnResult.read({"is_error": False, "result": "done"}).text == "done"
    assert TurnResult.read({"is_error": False, "errors": "a", "result": None}).text == ""


def test_a_result_that_does_not_say_that_all_is_well_is_an_error():
    assert TurnResult.read({}).is_error
    assert TurnResult.read({"is_error": "no"}).is_error


def test_only_a_number_is_a_status_and_only_a_string_a_reason():
    odd = {"api_error_status": "429", "terminal_reason": 5, "stop_reason": ["max_tokens"]}
    result = TurnResult.read({"is_error": True, **odd})
    assert (result.status, result.terminal_reason, result.stop_reason) == (None, None, None)


def test_a_bare_text_has_no_blocks():
    assert list(blocks({"message": {"content": "text"}})) == []
    assert list(blocks({"message": {"content": [1, {"type": "text"}]}})) == [{"type": "text"}]
