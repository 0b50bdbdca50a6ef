"""The CLI's messages, read with care: any part may be missing or odd."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from prsm_core.kit import as_object, as_objects

Json = Mapping[str, Any]

_EXIT_CODE = re.compile(r"Exit code (\d+)(?:\n|$)")
# Fields of a command's result that is no plain success. The CLI takes exit code 1 of grep, diff and
# others for an answer, and a command may go on in the background.
_NO_SUCCESS = ("returnCodeInterpretation", "backgroundTaskId", "interrupted")


class TurnResult(Struct, frozen=True, kw_only=True):
    """The end of a turn.

    text: What went wrong, or else the answer.
    status: The HTTP status of a request that failed.
    usage: The vendor's counts of tokens of the whole turn; `by_model` those of each model.
    cost_usd: The cost of the session so far.
    """

    is_error: bool
    text: str = ""
    stop_reason: str | None = None
    terminal_reason: str | None = None
    status: int | None = None
    usage: object = None
    by_model: object = None
    cost_usd: object = None

    @classmethod
    def read(cls, message: Json) -> TurnResult:
        """Return what a message of the type `result` says."""
        errors, status = message.get("errors"), message.get("api_error_status")
        reasons = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
        return cls(
            is_error=message.get("is_error") is not False,
            text=reasons or str(message.get("result") or ""),
            stop_reason=word(message.get("stop_reason")),
            terminal_reason=word(message.get("terminal_reason")),
            status=status if type(status) is int else None,
            usage=message.get("usage"),
            by_model=message.get("modelUsage"),
            cost_usd=message.get("total_cost_usd"),
        )


def blocks(message: Json) -> list[Json]:
    """Return the blocks of a message of the model or a tool. A bare text has none."""
    return as_objects(as_object(message.get("message")).get("content"))


def exit_code(message: Json) -> int | None:
    """Return the exit code of the command that a message ends; None if it is not told."""
    results = [block for block in blocks(message) if block.get("type") == "tool_result"]
    if len(results) != 1:
        return None
    if results[0].get("is_error"):
        code = _EXIT_CODE.match(text(results[0].get("content")))
        return int(code[1]) if code else None
    details = as_object(message.get("tool_use_result"))
    is_success = "stdout" in details and not any(details.get(name) for name in _NO_SUCCESS)
    return 0 if is_success else None


def text(content: object) -> str:
    """Return a text, or the texts of its parts."""
    if isinstance(content, list):
        parts = as_objects(content)
        return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in parts)
    return "" if content is None else str(content)


def word(value: object) -> str | None:
    """Return a string, None for anything else."""
    return value if isinstance(value, str) else None
