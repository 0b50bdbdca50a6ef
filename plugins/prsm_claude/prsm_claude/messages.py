"""What the CLI says in its conversation, read with care: any of it may be missing or odd."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from prsm_core.kit import as_object

Json = Mapping[str, Any]

_EXIT_CODE = re.compile(r"Exit code (\d+)(?:\n|$)")
# What the CLI says of a command beside its output where it is no plain success: it takes exit code
# 1 of grep, diff and others for an answer, and a command may go on behind the scenes.
_NO_SUCCESS = ("returnCodeInterpretation", "backgroundTaskId", "interrupted")


class TurnResult(Struct, frozen=True, kw_only=True):
    """The end of a turn.

    text: What went wrong, or else the answer.
    status: The HTTP status of a request that failed.
    usage: Counts of tokens of the whole turn, as the vendor tells them; `by_model` those of each
        model, `cost_usd` the cost of the session so far.
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
        errors = message.get("errors")
        told = errors if isinstance(errors, list) else ()
        status = message.get("api_error_status")
        return cls(
            is_error=message.get("is_error") is not False,
            text="; ".join(map(str, told)) or str(message.get("result") or ""),
            stop_reason=word(message.get("stop_reason")),
            terminal_reason=word(message.get("terminal_reason")),
            status=status if type(status) is int else None,
            usage=message.get("usage"),
            by_model=message.get("modelUsage"),
            cost_usd=message.get("total_cost_usd"),
        )


def blocks(message: Json) -> Iterator[Json]:
    """Yield the blocks of what the model or a tool has said; a bare text has none."""
    content = as_object(message.get("message")).get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            yield block


def exit_code(message: Json) -> int | None:
    """Return the exit code of the command that a message ends; None where it is not told."""
    ended = [block for block in blocks(message) if block.get("type") == "tool_result"]
    if len(ended) != 1:
        return None
    if ended[0].get("is_error"):
        code = _EXIT_CODE.match(text(ended[0].get("content")))
        return int(code[1]) if code else None
    told = as_object(message.get("tool_use_result"))
    return 0 if "stdout" in told and not any(told.get(name) for name in _NO_SUCCESS) else None


def text(content: object) -> str:
    """Return a text, or the texts of its parts."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in parts)
    return "" if content is None else str(content)


def word(value: object) -> str | None:
    """Return a string, None for anything else."""
    return value if isinstance(value, str) else None
