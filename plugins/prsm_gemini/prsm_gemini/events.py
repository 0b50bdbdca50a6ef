"""Lines of `-o stream-json` as provider events. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prsm_core import (
    AssistantMessage,
    Notice,
    ProviderEvent,
    TextDelta,
    TokenUsage,
    ToolCallFinished,
    ToolCallStarted,
    UsageReported,
    cut_result,
)
from prsm_core.kit import as_object, one_line, read_object, token_count
from prsm_gemini.tools import SHELL, canonical

Json = Mapping[str, Any]

_DENIED = "policy_violation"
_NOT_REGISTERED = "tool_not_registered"
# On stderr, once the turn has begun.
_SERVERS_FAILED = "MCP issues detected"
_EXIT_CODE = re.compile(r"Command exited with code: (\d+)")
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_input_tokens": "cached",
    "total_tokens": "total_tokens",
}


class Translator:
    """Turns the lines of one process, which runs one turn, into events.

    begun: Gemini has announced its session.
    result: The first result event.
    error: The message of the last error event that is more than a warning.
    ran: How often each of Gemini's own tools has succeeded, by name.
    bad_lines: How many lines were no event.
    """

    def __init__(
        self, is_orchestration: Callable[[str], bool], servers: Iterable[str] = ()
    ) -> None:
        self._is_orchestration = is_orchestration
        self._servers = sorted(servers)
        self._missing: set[str] = set()
        self._text: list[str] = []
        self._open: dict[str, str] = {}  # the vendor's own calls: Gemini's name, by id
        self._seen: set[str] = set()
        self._handlers: dict[str, Callable[[Json], list[ProviderEvent]]] = {
            "init": self._init,
            "message": self._message,
            "tool_use": self._tool_use,
            "tool_result": self._tool_result,
            "error": self._error,
            "result": self._result,
        }
        self.begun = False
        self.result: Json | None = None
        self.error: str | None = None
        self.ran: Counter[str] = Counter()
        self.bad_lines = 0

    @property
    def succeeded(self) -> bool:
        """Whether the turn did. The exit code says nothing about it."""
        return self.result is not None and self.failure is None

    @property
    def failure(self) -> str | None:
        """Gemini's reason for a failed turn."""
        result = as_object(self.result)
        if result.get("status") == "success":
            return self.error
        message = as_object(result.get("error")).get("message")
        return str(message or self.error or "gemini reported no reason")

    def feed(self, line: bytes) -> list[ProviderEvent]:
        """Return the events of a line. One that cannot be understood is counted and skipped."""
        if not line.strip():
            return []
        try:
            event = read_object(line)
            handler = self._handlers[event["type"]]
        except (ValueError, TypeError, KeyError):
            self.bad_lines += 1
            return []
        return [] if self.result is not None else handler(event)

    def finish(self) -> list[ProviderEvent]:
        """Return the last events of a turn."""
        events = self._flush()
        if self.bad_lines:
            events.append(Notice("warning", f"{self.bad_lines} lines of gemini were no events."))
        self._open.clear()
        return events

    def _init(self, _: Json) -> list[ProviderEvent]:
        self.begun = True
        return []

    def _message(self, event: Json) -> list[ProviderEvent]:
        text = event.get("content")
        if event.get("role") != "assistant" or not isinstance(text, str) or not text:
            return []
        self._text.append(text)
        return [TextDelta(text)]

    def _flush(self) -> list[ProviderEvent]:
        text = "".join(self._text)
        self._text.clear()
        return [AssistantMessage(text)] if text else []

    def _tool_use(self, event: Json) -> list[ProviderEvent]:
        call_id, name = str(event.get("tool_id", "")), str(event.get("tool_name", ""))
        events = self._flush()
        if call_id in self._seen or self._is_orchestration(name):
            return events
        self._seen.add(call_id)
        self._open[call_id] = name
        arguments = dict(as_object(event.get("parameters")))
        return [*events, ToolCallStarted(call_id, canonical(name), arguments)]

    def _tool_result(self, event: Json) -> list[ProviderEvent]:
        call_id = str(event.get("tool_id", ""))
        events = self._flush()
        name = self._open.pop(call_id, None)
        if name is None:
            return events  # an orchestration call, or a repetition
        output = event.get("output")
        text = cut_result(output) if isinstance(output, str) else None
        if event.get("status") == "success":
            self.ran[name] += 1
            return [*events, _succeeded(call_id, name, text)]
        error = as_object(event.get("error"))
        status = "denied" if error.get("type") == _DENIED else "failed"
        reason = cut_result(str(error.get("message") or output or status))
        if error.get("type") == _NOT_REGISTERED:
            events += self._missing_server(name)
        return [*events, ToolCallFinished(call_id, status, result=None, error=reason)]

    def _missing_server(self, tool: str) -> list[ProviderEvent]:
        """Warn once of the MCP server whose tool Gemini does not have."""
        missing = {server for server in self._servers if tool.startswith(f"mcp_{server}_")}
        news = missing - self._missing
        self._missing |= news
        return [_not_there(server) for server in sorted(news)]

    def failed_servers(self, stderr: str) -> list[ProviderEvent]:
        """Warn of a missing server, if no warning came before: Gemini does not say which."""
        if _SERVERS_FAILED not in stderr or self._missing:
            return []
        silent = [server for server in self._servers if not self._has_answered(server)]
        if len(silent) > 1:
            names = ", ".join(silent)
            return [Notice("warning", one_line(f"One of the MCP servers {names} is not there"))]
        return [_not_there(server) for server in silent]

    def _has_answered(self, server: str) -> bool:
        return any(tool.startswith(f"mcp_{server}_") for tool in self.ran)

    def _error(self, event: Json) -> list[ProviderEvent]:
        message = str(event.get("message", ""))
        if event.get("severity") == "warning":
            return [Notice("warning", one_line(message))]
        self.error = message
        return []

    def _result(self, event: Json) -> list[ProviderEvent]:
        self.result = event
        usage = _usage(event.get("stats"))
        return [*self._flush(), *([UsageReported(usage)] if usage else [])]


def _not_there(server: str) -> Notice:
    text = f"The MCP server {server} is not there: Gemini has none of its tools"
    return Notice("warning", one_line(text))


def _succeeded(call_id: str, name: str, text: str | None) -> ToolCallFinished:
    """Return the end of a call. Only a command that wrote nothing has an exit code."""
    if name != SHELL:
        return ToolCallFinished(call_id, "completed", result=text)
    if (match := _EXIT_CODE.fullmatch(text or "")) is not None:
        code = int(match[1])
        why = f"exit code {code}"
        return ToolCallFinished(call_id, "failed", result="", error=why, exit_code=code)
    if text == "":  # only with exit code 0
        return ToolCallFinished(call_id, "completed", result=text, exit_code=0)
    return ToolCallFinished(call_id, "completed", result=text, is_whole=False)


def _usage(stats: Any) -> TokenUsage | None:
    values = {name: token_count(as_object(stats).get(key)) for name, key in _COUNTS.items()}
    counts = {name: count for name, count in values.items() if count is not None}
    if not any(counts.values()):
        return None
    if len(counts) == len(_COUNTS):
        # Gemini counts thinking in the total alone. PRSM counts it as output, too.
        spoken = counts["input_tokens"] + counts["output_tokens"]
        thought = max(0, counts["total_tokens"] - spoken)
        counts["reasoning_tokens"] = thought
        counts["output_tokens"] += thought
    return TokenUsage(**counts)
