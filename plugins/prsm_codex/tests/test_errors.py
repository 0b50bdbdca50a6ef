"""Codex's errors as the seven kinds."""

from __future__ import annotations

import pytest
from prsm_codex.errors import NOISE, agent_error, stop_reason

from prsm_core.domain.turns import ErrorKind, StopReason
from prsm_core.kit import readable_tail

OVERFLOW = '{"error": {"code": "context_length_exceeded", "message": "too long"}}'


def failed(status):
    return {"httpConnectionFailed": {"httpStatusCode": status}}


@pytest.mark.parametrize(
    ("info", "message", "kind", "retryable"),
    [
        (
            {"responseTooManyFailedAttempts": {"httpStatusCode": 429}},
            "exceeded retry limit, last status: 429",
            ErrorKind.RATE_LIMIT,
            True,
        ),
        ("internalServerError", "high demand", ErrorKind.MODEL_ERROR, True),
        (failed(503), "unexpected status 503", ErrorKind.MODEL_ERROR, True),
        (failed(401), "unexpected status 401", ErrorKind.AUTH_FAILURE, False),
        (failed(403), "unexpected status 403", ErrorKind.AUTH_FAILURE, False),
        (failed(None), "Connection failed", ErrorKind.MODEL_ERROR, True),
        (failed(418), "unexpected status 418", ErrorKind.MODEL_ERROR, False),
        ("modelNotFound", "model not found", ErrorKind.MODEL_ERROR, False),
        ("contextWindowExceeded", "Codex ran out of room", ErrorKind.CONTEXT_OVERFLOW, False),
        ("usageLimitExceeded", "Quota exceeded", ErrorKind.RATE_LIMIT, False),
        ("serverOverloaded", "Selected model is at capacity", ErrorKind.MODEL_ERROR, True),
        ("rateLimitExceeded", "rate limit exceeded", ErrorKind.RATE_LIMIT, True),
        ("other", "stream disconnected before completion: x", ErrorKind.MODEL_ERROR, True),
        ("other", "Incomplete response returned, reason: x", ErrorKind.MODEL_ERROR, False),
        ("other", "Missing environment variable: `K`.", ErrorKind.AUTH_FAILURE, False),
        ("other", OVERFLOW, ErrorKind.CONTEXT_OVERFLOW, False),
        ("other", '{"error": {"message": "bad"}}', ErrorKind.MODEL_ERROR, False),
        ("other", "never seen before", ErrorKind.UNKNOWN, False),
        (["odd"], "", ErrorKind.UNKNOWN, False),
        ({}, "", ErrorKind.MODEL_ERROR, True),
    ],
)
def test_an_error_has_its_kind(info, message, kind, retryable):
    error = agent_error({"codexErrorInfo": info, "message": message})
    assert (error.kind, error.retryable) == (kind, retryable)
    assert error.message


def test_the_message_inside_a_raw_body_is_what_a_person_reads():
    assert agent_error({"message": OVERFLOW, "codexErrorInfo": "other"}).message == "too long"


def test_an_answer_cut_at_its_length_is_not_an_ordinary_error():
    cut = {"message": "Incomplete response returned, reason: max_output_tokens"}
    assert stop_reason(agent_error(cut)) is StopReason.MAX_TOKENS
    assert stop_reason(agent_error({"message": "other"})) is StopReason.ERROR


@pytest.mark.requirement("E75")
def test_the_cause_is_found_between_known_noise():
    noise = "\x1b[2mERROR\x1b[0m state db missing rollout path for thread\n" * 500
    stderr = f"{noise}first\n\n\x1b[31mcause\x1b[0m\nReading additional input from stdin...\n"
    assert readable_tail(stderr, NOISE) == "first\ncause"
