"""The lines of `codex exec --json` as provider events; pure, one translator per turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prsm_codex import approvals
from prsm_codex.command import TOOL_SERVER
from prsm_codex.errors import agent_error
from prsm_core import (
    AgentError,
    AssistantMessage,
    Notice,
    Provenance,
    ProviderEvent,
    TokenUsage,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
    cut_result,
)
from prsm_core.kit import as_object, as_objects, one_line, token_count

Json = Mapping[str, Any]
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_input_tokens": "cached_input_tokens",
    "cache_write_tokens": "cache_write_input_tokens",
    "reasoning_tokens": "reasoning_output_tokens",
}


class ExecTranslator:
    """Turns the lines of one turn into events, and remembers how it ended.

    What is told of an item after its end, or of the turn after its own, is not heard.

    began: each of the vendor's own calls as it begins, by the key it was allowed by.
    """

    def __init__(self) -> None:
        self._thread = ""
        self._thinking: list[str] = []
        self._open: dict[str, str] = {}  # the vendor's own calls, by item: the event's id
        self._done: set[str] = set()  # items that have ended
        self._handlers: dict[str, Callable[[Json], list[ProviderEvent]]] = {
            "thread.started": self._thread_started,
            "item.started": self._item_started,
            "item.completed": self._item_completed,
            "turn.completed": self._turn_completed,
            "turn.failed": self._turn_failed,
            "error": _error,
        }
        self.began: list[str] = []
        self.has_acted = False  # a call was made, so that the turn cannot be played again
        self.completing = False  # task_complete was answered
        self.completed = False
        self.error: AgentError | None = None

    @property
    def is_over(self) -> bool:
        """Whether the turn has told its end."""
        return self.completed or self.error is not None

    def feed(self, line: Json) -> list[ProviderEvent]:
        """Return the events of a line; an unknown one has none."""
        handler = self._handlers.get(str(line.get("type")))
        return handler(line) if handler and not self.is_over else []

    def finish(self) -> list[ProviderEvent]:
        """Return the thinking that a turn leaves without a message, and forget its calls."""
        self._open.clear()
        thoughts = self._thoughts()
        return [AssistantMessage("", thinking=thoughts)] if thoughts else []

    def _thoughts(self) -> str | None:
        text = "\n\n".join(self._thinking)
        self._thinking.clear()
        return text or None

    def _thread_started(self, line: Json) -> list[ProviderEvent]:
        self._thread = str(line.get("thread_id"))
        return []

    def _item_started(self, line: Json) -> list[ProviderEvent]:
        item = as_object(line.get("item"))
        tool = _tool(item)
        self.has_acted |= item.get("type") == "mcp_tool_call"
        return self._begin(str(item.get("id")), tool) if tool else []

    def _begin(self, item_id: str, tool: tuple[str, dict[str, Any]]) -> list[ProviderEvent]:
        if item_id in self._open or item_id in self._done:
            return []  # told twice, or too late
        self.has_acted = True
        self.began.append(allowed_key(*tool))
        call_id = self._open[item_id] = f"{self._thread}/{item_id}"  # items count from 0 each turn
        return [ToolCallStarted(call_id, *tool)]

    def _item_completed(self, line: Json) -> list[ProviderEvent]:
        item = as_object(line.get("item"))
        item_id, kind, tool = str(item.get("id")), item.get("type"), _tool(item)
        if item_id in self._done:
            return []  # told twice
        if kind == "agent_message":
            text = str(item.get("text") or "")
            return [AssistantMessage(text, thinking=self._thoughts())] if text else []
        if kind == "reasoning":
            self._thinking.append(str(item.get("text") or ""))
        elif kind == "error":
            return [Notice("warning", one_line(str(item.get("message") or "")))]
        elif tool is not None:
            begun = self._begin(item_id, tool)
            self._done.add(item_id)
            return [*begun, _finished(self._open.pop(item_id), item)]
        elif kind == "mcp_tool_call":
            self.has_acted = True
            done = item.get("tool") == "task_complete" and item.get("status") == "completed"
            self.completing |= done
        return []

    def _turn_completed(self, line: Json) -> list[ProviderEvent]:
        self.completed = True
        usage = as_object(line.get("usage"))
        counts = {name: token_count(usage.get(key)) for name, key in _COUNTS.items()}
        if all(count is None for count in counts.values()):
            return []
        total = _sum(counts["input_tokens"], counts["output_tokens"])
        tokens = TokenUsage(**counts, total_tokens=total)
        return [UsageReported(tokens, provenance=Provenance.REPORTED)]

    def _turn_failed(self, line: Json) -> list[ProviderEvent]:
        self.error = agent_error(as_object(line.get("error")))
        return []


def _error(line: Json) -> list[ProviderEvent]:
    message = str(line.get("message") or "")
    if not message.startswith("Reconnecting"):
        return []  # the turn's end tells it
    return [Notice("warning", one_line(f"Codex tries again: {message}"))]


def allowed_key(tool: str, arguments: Json) -> str:
    """Return by what a call is known both to the hook and in the lines: its command, or tool."""
    return f"Bash {arguments.get('command')}" if tool == "Bash" else tool


def _sum(*counts: int | None) -> int | None:
    return None if None in counts else sum(count or 0 for count in counts)


def _tool(item: Json) -> tuple[str, dict[str, Any]] | None:
    """Return the canonical name and arguments of a vendor tool; None for other items."""
    match item.get("type"):
        case "command_execution":
            return "Bash", {"command": approvals.unwrap(str(item.get("command", "")))}
        case "file_change":
            return "Edit", approvals.edit_arguments(item)
        case "web_search":
            return "WebSearch", {"query": item.get("query")}
        case "mcp_tool_call" if item.get("server") != TOOL_SERVER:
            name = f"mcp__{item.get('server')}__{item.get('tool')}"
            return name, dict(as_object(item.get("arguments")))
    return None


def _finished(call_id: str, item: Json) -> ToolCallFinished:
    output = item.get("aggregated_output")
    if item.get("type") == "mcp_tool_call":
        parts = as_objects(as_object(item.get("result")).get("content"))
        output = "\n".join(str(part.get("text", "")) for part in parts)
    result = cut_result(str(output)) if output is not None else None
    told = item.get("exit_code")
    code = told if type(told) is int else None
    if item.get("status", "completed") == "completed":
        return ToolCallFinished(call_id, "completed", result=result, exit_code=code)
    error = as_object(item.get("error")).get("message")
    why = str(error) if error else f"exit code {code}" if code is not None else "failed"
    return ToolCallFinished(call_id, "failed", result=result, error=why, exit_code=code)
