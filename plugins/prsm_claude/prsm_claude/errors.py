"""What a failed turn means: Claude's words and numbers as the seven kinds of AgentError; pure."""

from __future__ import annotations

import re

from prsm_core import (
    AgentError,
    ErrorKind,
)

_OVERFLOW = "prompt_too_long"
_LASTING_REASONS = frozenset({"max_turns", "budget_exhausted", "blocking_limit"})

# what an AssistantMessage in place of an answer says: the kind, and whether trying again can help
_WORDS = {
    "authentication_failed": (ErrorKind.AUTH_FAILURE, False),
    "billing_error": (ErrorKind.RATE_LIMIT, False),
    "rate_limit": (ErrorKind.RATE_LIMIT, True),
    "invalid_request": (ErrorKind.MODEL_ERROR, False),
    "server_error": (ErrorKind.MODEL_ERROR, True),
}
_PASSING = frozenset({408, 409, 425})

_TAIL_LINES = 5
_LINE = 500  # characters; a server may answer with a whole page
_TERMINAL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
    r"|[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"  # all other control, and bidi
)
_NOISE = ("[claude-code:unrecognized_model]",)


def agent_error(
    message: str,
    *,
    reason: str | None = None,
    status: int | None = None,
    word: str | None = None,
    retry_after_s: float | None = None,
) -> AgentError:
    """Return the error of a turn.

    `reason` is the result's terminal_reason, `status` that of the failed request, `word` the kind
    of error that the model's message has in place of an answer.
    """
    kind, retryable = _classify(reason, status, word)
    return AgentError(
        kind=kind,
        message=one_line(message) or "claude reported no reason",
        retryable=retryable,
        retry_after_s=retry_after_s,
    )


def _classify(reason: str | None, status: int | None, word: str | None) -> tuple[ErrorKind, bool]:
    if reason == _OVERFLOW:
        return ErrorKind.CONTEXT_OVERFLOW, False
    if reason in _LASTING_REASONS:
        return ErrorKind.UNKNOWN, False
    if status is not None:
        return _by_status(status)
    if word in _WORDS:
        return _WORDS[word]
    if reason == "api_error":  # no status: the connection failed
        return ErrorKind.MODEL_ERROR, True
    return ErrorKind.UNKNOWN, False


def _by_status(status: int) -> tuple[ErrorKind, bool]:
    if status in (401, 403):
        return ErrorKind.AUTH_FAILURE, False
    if status == 429:
        return ErrorKind.RATE_LIMIT, True
    return ErrorKind.MODEL_ERROR, status >= 500 or status in _PASSING


def one_line(text: str) -> str:
    """Return a text as one line for a person, without terminal control and not too long."""
    line = " ".join(_TERMINAL.sub("", text).split())
    return line if len(line) <= _LINE else f"{line[:_LINE]} …"


def readable_tail(stderr: str) -> str:
    """Return the last telling lines of a stderr, without known noise and terminal control."""
    lines = (one_line(line) for line in stderr.split("\n"))
    telling = [line for line in lines if line and not any(noise in line for noise in _NOISE)]
    return "\n".join(telling[-_TAIL_LINES:])
