"""Lines of `-o stream-json` as provider events; pure, one translator per turn."""

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
    """Turns the lines of one process into events.

    Attributes:
        begun: Gemini has told of the session.
        result: The result event, once it has come; only the first counts.
        error: The message of the last error event that is more than a warning.
        ran: How often each of Gemini's own tools has run with success, by its name.
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
        """Whether the turn did; the exit code says nothing of it."""
        return self.result is not None and self.failure is None

    @property
    def failure(self) -> str | None:
        """What Gemini says of a turn that failed."""
        if self.result is None or self.result.get("status") != "success":
            told = as_object((self.result or {}).get("error")).get("message")
            return str(told or self.error or "gemini reported no reason")
        return self.error

    def feed(self, line: bytes) -> list[ProviderEvent]:
        """Return the events of a line; what cannot be understood is counted and skipped."""
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
        """Return what a turn that has ended leaves open."""
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
            return events  # an orchestration call, or told twice
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
        """Tell once of the MCP server whose tool Gemini does not have."""
        missing = {server for server in self._servers if tool.startswith(f"mcp_{server}_")}
        news = missing - self._missing
        self._missing |= news
        return [_not_there(server) for server in sorted(news)]

    def failed_servers(self, stderr: str) -> list[ProviderEvent]:
        """Tell of a server that nobody was told of: Gemini says that it lacks one, not which."""
        if _SERVERS_FAILED not in stderr or self._missing:
            return []
        silent = [
            server
            for server in self._servers
            if not any(tool.startswith(f"mcp_{server}_") for tool in self.ran)
        ]
        if len(silent) > 1:
            names = ", ".join(silent)
            return [Notice("warning", one_line(f"One of the MCP servers {names} is not there"))]
        return [_not_there(server) for server in silent]

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
    return Notice(
        "warning", one_line(f"The MCP server {server} is not there: Gemini has none of its tools")
    )


def _succeeded(call_id: str, name: str, text: str | None) -> ToolCallFinished:
    """Return the end of a call; a command's exit code is told only where it wrote nothing."""
    code = _EXIT_CODE.fullmatch(text or "") if name == SHELL else None
    if code is not None:
        number = int(code[1])
        why = f"exit code {number}"
        return ToolCallFinished(call_id, "failed", result="", error=why, exit_code=number)
    is_silent = name == SHELL and text == ""  # which it is told to be with exit code 0 only
    is_whole = name != SHELL or is_silent
    exit_code = 0 if is_silent else None
    return ToolCallFinished(
        call_id, "completed", result=text, is_whole=is_whole, exit_code=exit_code
    )


def _usage(stats: Any) -> TokenUsage | None:
    """Return the tokens of a process, which has run one turn; None where nothing is told."""
    told = {name: token_count(as_object(stats).get(key)) for name, key in _COUNTS.items()}
    if not any(told.values()):
        return None
    if None not in told.values():
        # thinking is in the total, and in no other count; here it belongs to the output
        spoken = (told["input_tokens"] or 0) + (told["output_tokens"] or 0)
        thought = max(0, (told["total_tokens"] or 0) - spoken)
        told["reasoning_tokens"] = thought
        told["output_tokens"] = (told["output_tokens"] or 0) + thought
    return TokenUsage(**told)
