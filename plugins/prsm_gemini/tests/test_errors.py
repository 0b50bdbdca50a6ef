"""What a failed turn means."""

from __future__ import annotations

import json

import pytest
from prsm_gemini.errors import ended, failed, one_line, readable_tail

from prsm_core.domain.turns import ErrorKind


def body(code, message="scripted"):
    return f"[API Error: {json.dumps({'error': {'code': code, 'message': message}})}]"


@pytest.mark.parametrize(
    ("message", "code", "stderr", "kind", "retryable"),
    [
        (body(400), 144, "", ErrorKind.MODEL_ERROR, False),
        (body(401), 145, "", ErrorKind.AUTH_FAILURE, False),
        (body(403), 147, "", ErrorKind.AUTH_FAILURE, False),
        ("[API Error: scripted]", 1, "  code: 404\n", ErrorKind.MODEL_ERROR, False),
        ("[API Error: scripted]", 173, "", ErrorKind.RATE_LIMIT, True),
        (body(500), 244, "", ErrorKind.MODEL_ERROR, True),
        ("[API Error: scripted]", 247, "", ErrorKind.MODEL_ERROR, True),
        ("[API Error: fetch failed]", 1, "", ErrorKind.MODEL_ERROR, True),
        (
            body(400, "The input token count (9) exceeds the maximum number of tokens allowed (8)"),
            144,
            "",
            ErrorKind.CONTEXT_OVERFLOW,
            False,
        ),
        ("Model stream ended without a finish reason.", 0, "", ErrorKind.MODEL_ERROR, True),
    ],
)
def test_an_error_of_the_model_has_its_kind(message, code, stderr, kind, retryable):
    error = failed(message, code, stderr)
    assert (error.kind, error.retryable) == (kind, retryable)
    assert "{" not in error.message


def test_a_delay_is_read_from_the_message_or_from_what_gemini_logs():
    assert failed(body(429, "Please retry in 1.5s."), 173, "").retry_after_s == 1.5
    logged = "retryDelayMs: 1000,\nretryDelayMs: 2500.5,\n"
    assert failed("[API Error: busy]", 173, logged).retry_after_s == 2.5005
    assert failed("[API Error: busy]", 173, "retryDelayMs: undefined").retry_after_s is None


def test_a_run_without_a_result_names_exit_code_or_signal_and_the_cause():
    error = ended(3, "    at async main (x.js:1:1)\nfatal: no disk\nYOLO mode is enabled.\n")
    assert error.message == "gemini ended without a result (exit code 3): fatal: no disk"
    assert "signal 11" in ended(139, "").message
    assert ended(139, "").retryable
    assert not ended(3, "").retryable


def test_the_codes_of_gemini_itself_are_told_in_words():
    assert ended(41, "").kind is ErrorKind.AUTH_FAILURE
    assert "trust" in ended(55, "").message


def test_a_text_for_a_person_is_one_line_without_terminal_control():
    assert one_line("\x1b[31mred\x1b[0m\n\x1b]0;title\x07 \u202etext") == "red text"
    assert len(one_line("x" * 9999)) < 600
    assert readable_tail("Ripgrep is not available. x\n\n}\n") == ""
