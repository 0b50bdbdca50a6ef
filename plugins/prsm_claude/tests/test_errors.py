"""Failed turns as the seven kinds of error."""

from __future__ import annotations

import pytest
from prsm_claude.errors import NOISE, agent_error, is_cut

from prsm_core.domain.turns import ErrorKind
from prsm_core.kit import readable_tail


@pytest.mark.parametrize(
    ("given", "kind", "retryable"),
    [
        ({"reason": "api_error", "status": 429}, ErrorKind.RATE_LIMIT, True),
        ({"reason": "api_error", "status": 529}, ErrorKind.MODEL_ERROR, True),
        ({"reason": "api_error", "status": 500}, ErrorKind.MODEL_ERROR, True),
        ({"reason": "api_error", "status": 408}, ErrorKind.MODEL_ERROR, True),
        ({"reason": "api_error", "status": 404}, ErrorKind.MODEL_ERROR, False),
        ({"reason": "api_error", "status": 401}, ErrorKind.AUTH_FAILURE, False),
        ({"reason": "api_error", "status": 403}, ErrorKind.AUTH_FAILURE, False),
        ({"reason": "prompt_too_long", "status": 400}, ErrorKind.CONTEXT_OVERFLOW, False),
        ({"reason": "api_error", "word": "server_error"}, ErrorKind.MODEL_ERROR, True),
        ({"reason": "api_error", "word": "rate_limit"}, ErrorKind.RATE_LIMIT, True),
        ({"reason": "api_error", "word": "billing_error"}, ErrorKind.RATE_LIMIT, False),
        ({"reason": "api_error", "word": "invalid_request"}, ErrorKind.MODEL_ERROR, False),
        ({"reason": "api_error", "word": "authentication_failed"}, ErrorKind.AUTH_FAILURE, False),
        ({"reason": "api_error", "word": "unknown"}, ErrorKind.MODEL_ERROR, True),
        ({"reason": "api_error"}, ErrorKind.MODEL_ERROR, True),
        ({"reason": "max_turns"}, ErrorKind.UNKNOWN, False),
        ({}, ErrorKind.UNKNOWN, False),
    ],
)
def test_an_error_has_its_kind(given, kind, retryable):
    error = agent_error("m", **given)
    assert (error.kind, error.retryable) == (kind, retryable)


def test_an_answer_that_was_cut_at_the_output_limit_is_not_tried_again_as_it_is():
    cut = (
        "API Error: Claude's response exceeded the 128000 output token maximum. To configure this "
        "behavior, set the CLAUDE_CODE_MAX_OUTPUT_TOKENS environment variable."
    )
    assert (is_cut(cut), is_cut("API Error: 500")) == (True, False)
    assert agent_error(cut, reason="api_error").retryable is False


def test_a_reason_is_one_line_without_tricks():
    text = "\x1b[31mred\x1b[0m\n\x1b]52;c;eA==\x07 and\u202e more"
    assert agent_error(text).message == "red and more"
    assert len(agent_error("x" * 10_000).message) < 600
    assert agent_error(" \n").message == "claude reported no reason"


def test_a_time_to_wait_is_handed_on():
    assert agent_error("m", retry_after_s=3.0).retry_after_s == 3.0


def test_the_tail_of_stderr_is_what_tells_something():
    noise = "[claude-code:unrecognized_model] {}\n" * 100
    assert readable_tail(f"cause\n{noise}\n\n", NOISE) == "cause"
