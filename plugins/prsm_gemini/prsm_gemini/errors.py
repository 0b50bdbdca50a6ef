"""How a turn of Gemini failed, as an error of the turn; pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from prsm_core import (
    AgentError,
    ErrorKind,
    StopReason,
)
from prsm_core.kit import ended_how, one_line, read_pause, readable_tail, was_killed

if TYPE_CHECKING:
    from collections.abc import Mapping

# Gemini exits with the HTTP status, of which the system keeps eight bits.
_STATUSES = (400, 401, 403, 404, 408, 429, 500, 502, 503, 504)
_BY_EXIT_CODE = {status & 0xFF: status for status in _STATUSES}
_EXITS = {
    41: (ErrorKind.AUTH_FAILURE, "gemini is not logged in"),
    42: (ErrorKind.UNKNOWN, "gemini refused the session"),
    53: (ErrorKind.UNKNOWN, "gemini reached its own limit of turns"),
    55: (ErrorKind.UNKNOWN, "gemini does not trust the folder"),
}
_API_ERROR = re.compile(r"\[API Error: (.*?)\](?:\n|$)", re.DOTALL)
_STATUS = re.compile(r"\b(?:status|code): (\d{3})\b")
_RETRY_MS = re.compile(r"\bretryDelayMs: (\d+(?:\.\d+)?)")
_OVERFLOW = ("exceeds the maximum number of tokens", "context window", "input token count")
# What Gemini says once it has asked for an answer again, and had none that it can use.
_EMPTY = ("The model returned an empty ", "The model returned reasoning thoughts but no final ")
_CUT = "Model response was truncated because it exceeded the token limit"
NOISE = re.compile(
    r"^at \S|^\W*$|Ripgrep is not available|YOLO mode is enabled|256-color|True color|"
    r"^Error executing tool |Loaded cached credentials|MCP issues detected"
)


def answered(message: str) -> StopReason | None:
    """Return how a turn ended of which Gemini says that it failed, where the model did answer.

    An answer that is empty or was cut is no failure of the provider. None: it is one.
    """
    if message.startswith(_CUT):
        return StopReason.MAX_TOKENS
    return StopReason.END_TURN if message.startswith(_EMPTY) else None


def failed(message: str, code: int | None, stderr: str) -> AgentError:
    """Return the error of a turn.

    Args:
        message: What the result event, or else an error event, says.
        code: The exit code; None when it is not known.
        stderr: The end of what was written there.
    """
    said = _API_ERROR.search(message)
    body = _body(said[1] if said else message)
    text = str(body.get("message") or "") or (said[1] if said else message)
    status = _status(body, code, stderr) if said or body else None
    kind, retryable = _kind(status, text, is_stream=not (said or body))
    return AgentError(
        kind=kind,
        message=one_line(text),
        retryable=retryable,
        retry_after_s=_retry_after(text, stderr) if retryable else None,
    )


def ended(code: int | None, stderr: str) -> AgentError:
    """Return the error of a process that ended without telling how the turn ended.

    Without an exit code it closed its output, and had to be ended.
    """
    kind, reason = _EXITS.get(code or 0, (ErrorKind.UNKNOWN, ""))
    what = reason or f"gemini ended without a result ({ended_how(code)})"
    cause = readable_tail(stderr, NOISE).rpartition("\n")[2]
    message = f"{what}: {cause}" if cause else what
    died = code is not None and was_killed(code)
    return AgentError(kind=kind, message=message, retryable=died and not reason)


def _body(text: str) -> Mapping[str, Any]:
    """Return the error of the vendor's API inside a message that is its body."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    inner = body.get("error") if isinstance(body, dict) else None
    return inner if isinstance(inner, dict) else {}


def _status(body: Mapping[str, Any], code: int | None, stderr: str) -> int | None:
    if isinstance(body.get("code"), int):
        return int(body["code"])
    if code in _BY_EXIT_CODE:
        return _BY_EXIT_CODE[code]
    found = _STATUS.findall(stderr)
    return int(found[-1]) if found else None


def _kind(status: int | None, text: str, *, is_stream: bool) -> tuple[ErrorKind, bool]:
    if any(words in text for words in _OVERFLOW):
        return ErrorKind.CONTEXT_OVERFLOW, False
    if status in (401, 403):
        return ErrorKind.AUTH_FAILURE, False
    if status == 429:
        return ErrorKind.RATE_LIMIT, True
    if status is None:
        return ErrorKind.MODEL_ERROR, True if is_stream else "fetch failed" in text
    return ErrorKind.MODEL_ERROR, status >= 500 or status == 408


def _retry_after(text: str, stderr: str) -> float | None:
    if (told := read_pause(text)) is not None:
        return told
    found = _RETRY_MS.findall(stderr)
    return float(found[-1]) / 1000 if found else None
