"""An agent's errors as the seven kinds, and its stop reasons."""

from __future__ import annotations

import json

import pytest
from prsm_acp.errors import AcpError, agent_error, error_text, turn_ended

from prsm_core.domain.turns import ErrorKind, StopReason
from prsm_core.kit import one_line


@pytest.mark.parametrize(
    ("number", "message", "kind", "retryable"),
    [
        (-32000, "Authentication required", ErrorKind.AUTH_FAILURE, False),
        (401, "bad key", ErrorKind.AUTH_FAILURE, False),
        (-32603, "Internal error: API key not valid", ErrorKind.AUTH_FAILURE, False),
        (-32603, "Internal error: invalid x-api-key", ErrorKind.AUTH_FAILURE, False),
        (429, "Rate limit exceeded. Try again later.", ErrorKind.RATE_LIMIT, True),
        (-32603, "Internal error: RESOURCE_EXHAUSTED", ErrorKind.RATE_LIMIT, True),
        (-32603, "Internal error: prompt is too long", ErrorKind.CONTEXT_OVERFLOW, False),
        (400, "exceeds the maximum number of tokens", ErrorKind.CONTEXT_OVERFLOW, False),
        (503, "The model is overloaded", ErrorKind.MODEL_ERROR, True),
        (500, "Unknown stream execution error.", ErrorKind.MODEL_ERROR, True),
        (-32603, "Internal error: fetch failed", ErrorKind.MODEL_ERROR, True),
        (404, "no such thing", ErrorKind.MODEL_ERROR, False),
        (-32603, "Internal error: the model said no", ErrorKind.MODEL_ERROR, False),
        (-32603, "Internal error", ErrorKind.UNKNOWN, False),
        (-32602, "Invalid params", ErrorKind.UNKNOWN, False),
    ],
)
def test_an_error_has_its_kind(number, message, kind, retryable):
    error = agent_error(AcpError(message, number=number))
    assert (error.kind, error.retryable, error.message) == (kind, retryable, message)


@pytest.mark.parametrize(
    ("reason", "stop", "is_error"),
    [
        ("end_turn", StopReason.END_TURN, False),
        ("max_tokens", StopReason.MAX_TOKENS, False),
        ("cancelled", StopReason.ABORTED, False),
        ("refusal", StopReason.ERROR, True),
        ("max_turn_requests", StopReason.ERROR, True),
        ("something new", StopReason.ERROR, True),
        (None, StopReason.ERROR, True),
    ],
)
def test_a_stop_reason_has_its_meaning(reason, stop, is_error):
    ended = turn_ended(reason)
    assert (ended.stop_reason, ended.error is not None) == (stop, is_error)


def test_details_of_an_error_are_told_once():
    assert error_text("Internal error", {"details": "no disk"}) == "Internal error: no disk"
    assert error_text("no disk", {"message": "no disk"}) == "no disk"
    assert error_text("Internal error", "why") == "Internal error: why"
    assert error_text("Internal error", {"details": ["odd"]}) == "Internal error"
    assert error_text("Internal error", None) == "Internal error"


def test_the_body_of_a_vendors_answer_is_told_in_words():
    body = json.dumps({"error": {"code": 401, "message": "bad\nkey", "status": "X"}}, indent=2)
    assert error_text(body, None) == "401 bad key"
    assert error_text("Internal error", {"details": body + "\n"}) == "Internal error: 401 bad key"
    nested = json.dumps({"error": {"code": 500, "message": body}})
    assert error_text(f"got status: 500. {nested}", None) == "got status: 500. 401 bad key"
    for odd in ("{", '{"error": 5}', '{"error": {"code": 5}}', '{"a": ' * 50_000):
        assert error_text(odd, None) == one_line(odd)
