"""Reads what Claude Code and Codex keep of a conversation: JSON lines of their own.

Only what was said, called and answered is taken; what a line of theirs tells besides, and lines of
kinds that are not known, is left out. Any of it may be missing or of another kind: the file may be
of a later version of theirs, or made by hand.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from prsm_core.domain.record import Record
from prsm_core.domain.usage import TokenUsage
from prsm_core.kit.reading import as_object, token_count
from prsm_core.kit.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Line = Mapping[str, Any]

_CONTEXT = ("<", "# AGENTS.md")  # how a message begins that Codex, not the person, has written
_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_ANSWERS = frozenset({"function_call_output", "custom_tool_call_output"})


class Said(Record, frozen=True, kw_only=True):
    """A message, a call of a tool, or its answer."""

    kind: str  # user | assistant | call | result
    at: float  # Unix seconds
    text: str = ""
    thinking: str | None = None
    call: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = {}
    is_error: bool = False


class Transcript(Record, frozen=True, kw_only=True):
    """One conversation of a vendor's own agent."""

    provider: str  # claude | codex
    thread: str  # the vendor's id of it
    cwd: str
    model: str
    said: tuple[Said, ...]
    usage: TokenUsage

    @property
    def task(self) -> str:
        """What the person said first."""
        return next((each.text for each in self.said if each.kind == "user"), "")


def read_transcript(lines: Sequence[Line]) -> Transcript | None:
    """Return the conversation; None where the lines are of neither."""
    if any("sessionId" in line and isinstance(line.get("message"), dict) for line in lines):
        return _claude(lines)
    if any(line.get("type") == "session_meta" for line in lines):
        return _codex(lines)
    return None


def _claude(lines: Sequence[Line]) -> Transcript:
    own = [
        line
        for line in lines
        if str(line.get("type")) in {"user", "assistant"}
        and isinstance(line.get("message"), dict)
        and not line.get("isSidechain")
        and not line.get("isMeta")
    ]
    used: dict[str, Mapping[str, Any]] = {}  # by message: each of its lines tells it again
    model = "default"
    for line in own:
        message = line["message"]
        model = str(message.get("model") or model)
        if isinstance(message.get("usage"), dict):
            used[str(message.get("id"))] = message["usage"]
    first = next((line for line in own if line.get("cwd")), {})
    return Transcript(
        provider="claude",
        thread=str(next((line["sessionId"] for line in own if line.get("sessionId")), "")),
        cwd=str(first.get("cwd") or "."),
        model=model,
        said=tuple(each for line in own for each in _claude_said(line)),
        usage=TokenUsage(
            input_tokens=_sum(used, "input_tokens"),
            output_tokens=_sum(used, "output_tokens"),
            cached_input_tokens=_sum(used, "cache_read_input_tokens"),
            cache_write_tokens=_sum(used, "cache_creation_input_tokens"),
        ),
    )


def _sum(used: Mapping[str, Line], name: str) -> int | None:
    counts = [token_count(each.get(name)) for each in used.values()]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _claude_said(line: Line) -> Iterator[Said]:
    at, role, content = _at(line), str(line["type"]), line["message"].get("content")
    parts = content if isinstance(content, list) else [content]
    for each in parts:
        part = {"type": "text", "text": each} if isinstance(each, str) else as_object(each)
        match part.get("type"):
            case "text" if part.get("text"):
                yield Said(kind=role, at=at, text=str(part["text"]))
            case "thinking" if part.get("thinking"):
                yield Said(kind="assistant", at=at, thinking=str(part["thinking"]))
            case "tool_use":
                given = part.get("input")
                arguments = given if isinstance(given, dict) else {"input": given}
                name, call = str(part.get("name")), str(part.get("id"))
                yield Said(kind="call", at=at, call=call, tool=name, arguments=arguments)
            case "tool_result":
                yield Said(
                    kind="result",
                    at=at,
                    call=str(part.get("tool_use_id")),
                    text=_text(part.get("content")),
                    is_error=bool(part.get("is_error")),
                )


def _codex(lines: Sequence[Line]) -> Transcript:
    meta = next(_payload(line) for line in lines if line.get("type") == "session_meta")
    model = "default"
    total: Line = {}
    said: list[Said] = []
    for line in lines:
        payload = _payload(line)
        if line.get("type") == "turn_context":
            model = str(payload.get("model") or model)
        elif line.get("type") == "event_msg" and payload.get("type") == "token_count":
            total = as_object(as_object(payload.get("info")).get("total_token_usage")) or total
        elif line.get("type") == "response_item":
            said += _codex_said(payload, _at(line))
    counts = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "cached_input_tokens": "cached_input_tokens",
        "reasoning_tokens": "reasoning_output_tokens",
        "total_tokens": "total_tokens",
    }
    return Transcript(
        provider="codex",
        thread=str(meta.get("id") or ""),
        cwd=str(meta.get("cwd") or "."),
        model=model,
        said=tuple(said),
        usage=TokenUsage(**{ours: token_count(total.get(of)) for ours, of in counts.items()}),
    )


def _codex_said(item: Line, at: float) -> Iterator[Said]:
    kind, role = str(item.get("type")), str(item.get("role"))
    call = str(item.get("call_id") or item.get("id") or "")
    if kind == "message" and role in {"user", "assistant"}:
        text = _text(item.get("content"))
        if text and not (role == "user" and text.startswith(_CONTEXT)):
            yield Said(kind=role, at=at, text=text)
    elif kind == "reasoning" and (thought := _text(item.get("summary"))):
        yield Said(kind="assistant", at=at, thinking=thought)
    elif kind in _CALLS:
        tool = str(item.get("name") or "shell")
        arguments = _arguments(item.get(_CALLS[kind]))
        yield Said(kind="call", at=at, call=call, tool=tool, arguments=arguments)
    elif kind in _ANSWERS:
        yield Said(kind="result", at=at, call=call, text=_text(item.get("output")))


def _payload(line: Line) -> Line:
    return as_object(line.get("payload"))


def _arguments(given: Any) -> Mapping[str, Any]:
    """Return arguments that may be JSON text, and may be none of it."""
    if isinstance(given, str):
        try:
            given = sanitize(json.loads(given))
        except (ValueError, RecursionError):  # a tool with a grammar of its own
            return {"input": given}
    return given if isinstance(given, dict) else {"input": given}


def _text(content: Any) -> str:
    """Return the text of a content, which may be one of parts."""
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if _has_text(part))
    if content is None or isinstance(content, str):
        return content or ""
    return json.dumps(content, ensure_ascii=False)


def _has_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _at(line: Line) -> float:
    try:
        return max(0.0, datetime.fromisoformat(str(line.get("timestamp"))).timestamp())
    except (ValueError, OverflowError):  # of a year that no clock here has
        return 0.0
