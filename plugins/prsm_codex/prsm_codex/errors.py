"""Codex's error values as the kinds of AgentError. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from prsm_core import AgentError, ErrorKind, StopReason
from prsm_core.kit import as_object, one_line, read_pause

# codexErrorInfo, where it is a word: the kind, and whether trying again can help
_WORDS = {
    "contextWindowExceeded": (ErrorKind.CONTEXT_OVERFLOW, False),
    "sessionBudgetExceeded": (ErrorKind.RATE_LIMIT, False),
    "usageLimitExceeded": (ErrorKind.RATE_LIMIT, False),
    "rateLimitExceeded": (ErrorKind.RATE_LIMIT, True),
    "flexUnavailable": (ErrorKind.RATE_LIMIT, True),
    "serverOverloaded": (ErrorKind.MODEL_ERROR, True),
    "policyCapacityUnavailable": (ErrorKind.MODEL_ERROR, True),
    "internalServerError": (ErrorKind.MODEL_ERROR, True),
    "modelNotFound": (ErrorKind.MODEL_ERROR, False),
    "badRequest": (ErrorKind.MODEL_ERROR, False),
    "unauthorized": (ErrorKind.AUTH_FAILURE, False),
}

# The beginning of the message, where codexErrorInfo says no more than "other", or is not told:
# `codex exec` has nothing else.
_MESSAGES = (
    ("stream disconnected", ErrorKind.MODEL_ERROR, True),
    ("Incomplete response returned", ErrorKind.MODEL_ERROR, False),
    ("Missing environment variable", ErrorKind.AUTH_FAILURE, False),
    ("We’re currently experiencing high demand", ErrorKind.MODEL_ERROR, True),  # noqa: RUF001 - so it is written
    ("Selected model is at capacity", ErrorKind.MODEL_ERROR, True),
    ("Codex ran out of room", ErrorKind.CONTEXT_OVERFLOW, False),
    ("Quota exceeded", ErrorKind.RATE_LIMIT, False),
    ("You’ve hit your usage limit", ErrorKind.RATE_LIMIT, False),  # noqa: RUF001 - so it is written
    ("rate limit exceeded", ErrorKind.RATE_LIMIT, True),
    ("model not found", ErrorKind.MODEL_ERROR, False),
    ("Connection failed", ErrorKind.MODEL_ERROR, True),
)
_STATUS = re.compile(r"(?:unexpected status|last status:) (\d{3})\b")
NOISE = re.compile(  # lines of stderr that tell nothing
    r"could not create PATH aliases|could not find bubblewrap|Reading additional input from stdin"
    r"|state db missing rollout path|Untrusted project-local configuration is disabled"
    r"|codex_core::tools::router"  # what became of a call is told to the model
)
_MAX_TOKENS = "reason: max_output_tokens"


def agent_error(error: Mapping[str, Any], now: float | None = None) -> AgentError:
    """Return the error of a turn: {message, codexErrorInfo}; `now` is in Unix seconds."""
    message = str(error.get("message") or "codex reported no reason")
    kind, retryable = _classify(error.get("codexErrorInfo"), message)
    return AgentError(
        kind=kind,
        message=one_line(str(_body(message).get("message") or message)),
        retryable=retryable,
        retry_after_s=read_pause(message, now),
    )


def stop_reason(error: AgentError) -> StopReason:
    """Return why a failed turn stopped."""
    return StopReason.MAX_TOKENS if _MAX_TOKENS in error.message else StopReason.ERROR


def _classify(info: Any, message: str) -> tuple[ErrorKind, bool]:
    if isinstance(info, Mapping):
        details = next(iter(info.values()), None)
        status = details.get("httpStatusCode") if isinstance(details, Mapping) else None
        return _by_status(status)
    if isinstance(info, str) and info in _WORDS:
        return _WORDS[info]
    for beginning, kind, retryable in _MESSAGES:
        if message.startswith(beginning):
            return kind, retryable
    if status := _STATUS.search(message):
        return _by_status(int(status[1]))
    body = _body(message)
    if not body:
        return ErrorKind.UNKNOWN, False
    overflow = body.get("code") == "context_length_exceeded"
    return (ErrorKind.CONTEXT_OVERFLOW if overflow else ErrorKind.MODEL_ERROR), False


def _by_status(status: Any) -> tuple[ErrorKind, bool]:
    if status in (401, 403):
        return ErrorKind.AUTH_FAILURE, False
    if status == 429:
        return ErrorKind.RATE_LIMIT, True
    lasting = isinstance(status, int) and 400 <= status < 500 and status not in (408, 409, 425)
    return ErrorKind.MODEL_ERROR, not lasting  # no status: the connection failed


def _body(message: str) -> Mapping[str, Any]:
    try:
        return as_object(as_object(json.loads(message)).get("error"))
    except (ValueError, RecursionError):
        return {}
