"""Claude's errors as the kinds of AgentError. Pure."""

from __future__ import annotations

import re

from prsm_core import AgentError, ErrorKind
from prsm_core.kit import one_line

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

# What the CLI says once it has asked for a shorter answer itself, several times.
_CUT = re.compile(r"response exceeded the \d+ output token maximum")

NOISE = re.compile(r"\[claude-code:unrecognized_model\]")  # lines of stderr that tell nothing


def agent_error(
    message: str,
    *,
    reason: str | None = None,
    status: int | None = None,
    word: str | None = None,
    retry_after_s: float | None = None,
) -> AgentError:
    """Return the error of a turn by its terminal reason, HTTP status, or word of a message."""
    kind, retryable = _classify(reason, status, word)
    return AgentError(
        kind=kind,
        message=one_line(message) or "claude reported no reason",
        retryable=retryable and not is_cut(message),
        retry_after_s=retry_after_s,
    )


def is_cut(message: str) -> bool:
    """Whether a turn failed because answers were cut at the output limit."""
    return _CUT.search(message) is not None


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
