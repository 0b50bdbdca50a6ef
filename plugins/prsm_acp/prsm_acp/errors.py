"""What an agent's refusal, end or stop reason means for the turn. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from prsm_core import AgentError, ErrorKind, ProcessError, StopReason, TurnEnded
from prsm_core.kit import one_line, read_pause

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
AUTH_REQUIRED = -32000
NOT_FOUND = -32002
_NESTED = 3  # some put the body of an answer into the message of another
_DECODER = json.JSONDecoder(strict=False)

# Agents wrap their vendor's errors into texts of their own. They share these words.
_WORDS = (
    (
        r"context.?(length|window)|prompt is too long|too many (input )?tokens"
        r"|maximum number of tokens",
        ErrorKind.CONTEXT_OVERFLOW,
        False,
    ),
    (
        r"\b40[13]\b|unauthori[sz]ed|unauthenticated|authenticat|api.?key|not logged in"
        r"|permission.denied|credential",
        ErrorKind.AUTH_FAILURE,
        False,
    ),
    (
        r"\b429\b|rate.?limit|too many requests|resource.?exhausted|quota",
        ErrorKind.RATE_LIMIT,
        True,
    ),
    (
        r"\b5\d\d\b|overloaded|unavailable|at capacity|timed? ?out|connection|fetch failed"
        r"|econn\w+|socket",
        ErrorKind.MODEL_ERROR,
        True,
    ),
    (r"model|\b400\b|\b404\b|invalid.argument", ErrorKind.MODEL_ERROR, False),
)
_STOPS = {
    "end_turn": (StopReason.END_TURN, None),
    "max_tokens": (StopReason.MAX_TOKENS, None),
    "cancelled": (StopReason.ABORTED, None),
    "refusal": (StopReason.ERROR, "the model refused to go on"),
    "max_turn_requests": (StopReason.ERROR, "the agent stopped after too many requests in a turn"),
}


class AcpError(ProcessError):
    """The agent answered a request with an error, whose JSON-RPC number is `number`."""

    code = "acp_refused"

    def __init__(self, message: str, *, number: int = INTERNAL, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.number = number


class AcpClosedError(AcpError):
    """The agent has ended; `why` is the reason, `tail` the last telling lines of stderr."""

    code = "acp_ended"

    def __init__(self, name: str, why: str, *, tail: str = "") -> None:
        super().__init__(f"{name} ended: {why}", hint="The next turn starts it again.")
        self.why = why
        self.tail = tail


def error_text(message: str, data: Any) -> str:
    """Return the text of a JSON-RPC error and its details, in one line."""
    raw = data.get("details") or data.get("message") if isinstance(data, dict) else data
    details = _unpacked(str(raw)) if isinstance(raw, (str, int, float)) else ""
    message = _unpacked(message)
    return one_line(f"{message}: {details}" if details and details not in message else message)


def _unpacked(text: str) -> str:
    """Return a text with the error of a vendor's API in place of the JSON body at its end."""
    for _ in range(_NESTED):
        before, brace, body = text.partition("{")
        try:
            error = _DECODER.raw_decode(brace + body)[0]["error"]
            inner, code = error["message"], error.get("code")
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            return text
        number = f"{code} " if isinstance(code, int) and str(code) not in f"{before}{inner}" else ""
        text = f"{before}{number}{inner}"
    return text


def agent_error(error: AcpError) -> AgentError:
    """Return the error of a turn that failed."""
    kind, retryable = _classify(error)
    return AgentError(
        kind=kind,
        message=error.message,
        retryable=retryable,
        retry_after_s=read_pause(error.message),
    )


def _classify(error: AcpError) -> tuple[ErrorKind, bool]:
    """Some agents give the HTTP status as the number of the error, some only in words."""
    if error.number == AUTH_REQUIRED:
        return ErrorKind.AUTH_FAILURE, False
    text = f"{error.number} {error.message}" if 400 <= error.number < 600 else error.message
    for words, kind, retryable in _WORDS:
        if re.search(words, text, re.IGNORECASE):
            return kind, retryable
    return ErrorKind.UNKNOWN, False


def turn_ended(reason: object) -> TurnEnded:
    """Return how a turn ended, by the agent's stop reason."""
    stop, why = _STOPS.get(str(reason), (StopReason.ERROR, f"unknown stop reason {reason!r}"))
    if why is None:
        return TurnEnded(stop)
    return TurnEnded(stop, AgentError(kind=ErrorKind.MODEL_ERROR, message=one_line(why)))
