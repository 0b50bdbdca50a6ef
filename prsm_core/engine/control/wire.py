"""What goes over a control socket: one JSON value a line, a request and its one answer.

A request is `{"op": NAME, "args": {…}, "key": TEXT}`, an answer `{"ok": VALUE}` or
`{"error": {"type", "code", "message", "hint"}}`. The key is that of the session's owner; who only
looks needs none. An operation with many values answers `{"ok": null}`, then a line for each value
when it comes, `{"next": VALUE}`, and at last `{"end": WHY}` or an error.
"""

from __future__ import annotations

import json
import logging
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from prsm_core import door, errors
from prsm_core.domain.permissions import Answer
from prsm_core.domain.record import Record
from prsm_core.domain.structs import find_fault
from prsm_core.errors import ControlError, PrsmError
from prsm_core.interfaces.app_handle import METHODS

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = logging.getLogger("prsm.engine")

PROTOCOL = 4
REQUEST_LIMIT = 1 << 20  # bytes a line
ANSWER_LIMIT = 64 << 20
# What of RunOptions a run that is started over a socket may have of its own.
STARTABLE = frozenset(
    {"provider", "model", "mode", "effort", "timeout_s", "mcp_servers", "images", "labels"}
)

# What reading an answer raises that is none to this version: of another shape, or too deep.
WRONG = (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError, RecursionError)

# An InvalidTransitionError is made of states, which an answer does not hold.
_CLASSES: Mapping[str, type[PrsmError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and name != "InvalidTransitionError"
}


# What the annotations of AppHandle name; the mode of a run is checked by the application.
_TYPES: Mapping[str, Any] = {
    "door": door,
    "Answer": Answer,
    "Comment": door.Comment,
    "Mapping": dict,
    "PermissionMode": str,
    "Sequence": list,
}


@cache
def hints_of(name: str) -> Mapping[str, Any]:
    """Return the types of a method of AppHandle, of its arguments and of its answer."""
    return get_type_hints(METHODS[name][0], localns=_TYPES)


def read_value(name: str, value: Any) -> Any:
    """Return the value of an answer as the method of AppHandle gives it.

    Raises:
        ControlError: it is none to this version.
    """
    try:
        return msgspec.convert(value, hints_of(name)["return"])
    except WRONG as error:
        raise bad_answer() from error


class Request(Record, frozen=True):
    """What a peer asks for; nothing in it has been checked but its shape."""

    op: str
    args: dict[str, Any] = msgspec.field(default_factory=dict)
    key: str = ""


def encode(value: Mapping[str, Any]) -> bytes:
    """Return a value as one line."""
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode() + b"\n"


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
        # JSON can spell half a surrogate pair, which no ledger takes.
        json.dumps(request, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise bad_request(f"a request is one line of JSON: {error}") from error
    fault = find_fault(Request, request)
    if fault is not None:
        raise bad_request(": ".join(filter(None, ("a request", *fault))))
    return msgspec.convert(request, Request)


class End(Record, frozen=True):
    """There are no more values, and why."""

    why: str


def encode_next(value: Any) -> bytes:
    """Return one of many values as a line."""
    return encode({"next": value})


def encode_end(why: str) -> bytes:
    """Return the line after the last of many values."""
    return encode({"end": why})


def decode_part(line: bytes) -> Any:
    """Return one of many values, or End after the last.

    Raises:
        PrsmError: the owner met an error.
        ControlError: it is neither.
    """
    try:
        part = json.loads(line)
        if "next" in part:
            return part["next"]
        if "end" in part:
            return End(str(part["end"]))
        error = _to_error(part["error"])
    except WRONG as wrong:
        raise bad_answer() from wrong
    raise error


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
    except WRONG as wrong:
        raise bad_answer() from wrong
    raise error


def bad_answer() -> ControlError:
    """Return the error of an answer that is none to this version."""
    return ControlError(
        "the owner of the session gave no answer that this version understands",
        hint="use the same version of prsm for both",
        code="bad_answer",
    )


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


def encode_failure(error: Exception) -> bytes:
    """Return the answer that tells of any error; one of the program is logged."""
    if isinstance(error, PrsmError):
        return encode_error(error)
    _log.error("a control request failed", exc_info=error)
    text = f"the request failed inside prsm: {type(error).__name__}: {error}"
    return encode_error(PrsmError(text, code="internal"))


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
    kind, hint = _CLASSES.get(told["type"], PrsmError), told["hint"]
    said = None if hint is None else str(hint)
    return kind(str(told["message"]), hint=said, code=str(told["code"]))
