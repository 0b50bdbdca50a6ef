"""What a failed turn means."""

from __future__ import annotations

import json

import pytest
from prsm_gemini.turn import answered, ended, failed

from prsm_core.domain.turns import ErrorKind, StopReason


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
    killed = "gemini ended without a result (killed by signal 11, SIGSEGV)"
    assert ended(139, "").message == killed
    goes_on = "gemini ended without a result (it closed its output and went on running)"
    assert ended(None, "").message == goes_on
    assert ended(139, "").retryable
    assert not ended(3, "").retryable


def test_the_codes_of_gemini_itself_are_told_in_words():
    assert ended(41, "").kind is ErrorKind.AUTH_FAILURE
    assert "trust" in ended(55, "").message


def test_a_text_for_a_person_is_one_line_without_terminal_control():
    hostile = "\x1b[31mred\x1b[0m\n\x1b]0;title\x07 \u202etext"
    assert failed(hostile, 1, "").message == "red text"
    assert len(failed("x" * 9999, 1, "").message) < 600
    assert ended(3, "cause\nRipgrep is not available. x\n\n}\n").message.endswith(": cause")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "The model returned an empty response with no text or thoughts. This may be a "
            "transient API issue; please try again.",
            StopReason.END_TURN,
        ),
        (
            "The model returned an empty text response. If your context window is near capacity, "
            "try using /compress.",
            StopReason.END_TURN,
        ),
        (
            "The model returned reasoning thoughts but no final response text. If your context "
            "window is near capacity, try using /compress.",
            StopReason.END_TURN,
        ),
        (
            "Model response was truncated because it exceeded the token limit. Try using "
            "/compress to free up context space.",
            StopReason.MAX_TOKENS,
        ),
        ("The model response was blocked due to safety settings.", None),
        (body(500), None),
    ],
)
def test_an_empty_or_a_cut_answer_is_no_failure_of_the_provider(message, reason):
    assert answered(message) is reason
