"""What goes over a control socket: one JSON value a line, a request and its one answer.

A request is `{"op": NAME, "args": {…}, "key": TEXT}`, an answer `{"ok": VALUE}` or
`{"error": {"type", "code", "message", "hint"}}`. The key is that of the session's owner; who only
looks needs none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from prsm_core import errors
from prsm_core.errors import ControlError, PrsmError

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOL = 1
REQUEST_LIMIT = 1 << 20  # bytes a line
ANSWER_LIMIT = 64 << 20

# An InvalidTransitionError is made of states, which an answer does not hold.
_CLASSES: Mapping[str, type[PrsmError]] = {
    name: getattr(errors, name) for name in errors.__all__ if name != "InvalidTransitionError"
}


class Request(NamedTuple):
    """What a peer asks for; nothing in it has been checked but its shape."""

    op: str
    args: dict[str, Any]
    key: str = ""


def encode(value: Mapping[str, Any]) -> bytes:
    """Return a value as one line."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def encode_request(op: str, args: Mapping[str, Any], key: str = "") -> bytes:
    """Return a request as one line.

    Raises:
        ControlError: it is longer than a server takes.
    """
    line = encode({"op": op, "args": args} | ({"key": key} if key else {}))
    if len(line) > REQUEST_LIMIT:
        raise too_long()
    return line


def decode_request(line: bytes) -> Request:
    """Return what a peer asks for.

    Raises:
        ControlError: it is none.
    """
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"a request is one line of JSON: {error}") from error
    if not isinstance(request, dict) or not isinstance(request.get("op"), str):
        raise bad_request("a request is an object with `op` and `args`")
    args, key = request.get("args", {}), request.get("key", "")
    if not isinstance(args, dict):
        raise bad_request("`args` is an object")
    if not isinstance(key, str):
        raise bad_request("`key` is a text")
    return Request(request["op"], args, key)


def decode_answer(line: bytes) -> Any:
    """Return the value of an answer.

    Raises:
        PrsmError: the answer is an error: the one that the owner of the session met.
        ControlError: it is no answer.
    """
    try:
        answer = json.loads(line)
        if "error" in answer:
            error = _to_error(answer["error"])
        else:
            return answer["ok"]
    except (ValueError, TypeError, KeyError) as wrong:
        raise ControlError(
            "the owner of the session gave no answer that this version understands",
            hint="use the same version of prsm for both",
            code="bad_answer",
        ) from wrong
    raise error


def encode_error(error: PrsmError) -> bytes:
    """Return the answer that tells of an error."""
    return encode(
        {
            "error": {
                "type": type(error).__name__,
                "code": error.code,
                "message": error.message,
                "hint": error.hint,
            }
        }
    )


def too_long() -> ControlError:
    """Return the error of a request that is too long."""
    return ControlError(
        f"a request has at most {REQUEST_LIMIT} bytes", hint="say less", code="line_too_long"
    )


def bad_request(message: str) -> ControlError:
    """Return the error of a request that is not one."""
    return ControlError(message, code="bad_request")


def _to_error(told: Mapping[str, Any]) -> PrsmError:
    """Return the error as the class it had, PrsmError for one that this version does not know."""
    kind = _CLASSES.get(told["type"], PrsmError)
    return kind(str(told["message"]), hint=told["hint"], code=str(told["code"]))
