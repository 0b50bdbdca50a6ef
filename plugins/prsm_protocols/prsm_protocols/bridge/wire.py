"""What travels between a program and its engine: a request and its answer, one JSON object each.

The same by every transport. A request says whose it is (`agent`, `token`), has an `id` of its own,
and says what to `do` with which `args`. An answer bears the id, and either a result or an error.
"""

from __future__ import annotations

from typing import Any

import msgspec

from prsm_core import OrchestrationError, ToolInputError

MAX_LINE = 64 * 1024  # bytes of a request
MAX_ID = 64


class Request(msgspec.Struct, frozen=True):
    """One request of a program."""

    agent: str
    token: str
    id: str
    do: str
    args: dict[str, Any] = msgspec.field(default_factory=dict)


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to the request of this id."""

    id: str
    ok: bool
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(Request)


def read_request(line: bytes) -> Request:
    """Return the request that a line is; raise ToolInputError for any other."""
    if len(line) > MAX_LINE:
        raise ToolInputError(
            f"a request has at most {MAX_LINE} bytes, and this one {len(line)}",
            hint="write what is long into a file, and name that",
            code="too_long",
        )
    try:
        request = _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ToolInputError(
            f"this is no request: {error}",
            hint="a request is a JSON object with agent, token, id, do and args",
            code="malformed",
        ) from None
    if not (0 < len(request.id) <= MAX_ID and request.id.isascii() and request.id.isprintable()):
        raise ToolInputError(
            f"the id of a request is 1 to {MAX_ID} printable characters of ASCII",
            hint="a UUID is one",
            code="malformed",
        )
    return request


def write_answer(answer: Answer) -> bytes:
    """Return an answer as a line, without its end."""
    return msgspec.json.encode(answer)


def refusal(request_id: str, error: OrchestrationError) -> Answer:
    """Return the answer that says what is wrong, and what to do."""
    told = {"code": error.code, "message": error.message, "hint": error.hint}
    return Answer(id=request_id, ok=False, error=told)
