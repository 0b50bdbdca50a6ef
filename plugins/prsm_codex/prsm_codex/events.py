"""App-server notifications as provider events. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prsm_codex import approvals
from prsm_core import (
    AssistantMessage,
    Notice,
    PlanEntry,
    PlanUpdated,
    Provenance,
    ProviderEvent,
    StepEnded,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    UsageReported,
    cut_result,
)
from prsm_core.kit import as_object, as_objects, one_line, token_count

if TYPE_CHECKING:
    from prsm_core import PermissionRequest

Json = Mapping[str, Any]
_DENIED = "declined"
_STATUS = {"inProgress": "in_progress", "completed": "completed"}  # of a step of a plan
_EXITED = re.compile(r"^Process exited with code (-?\d+)$", re.MULTILINE)
_GOES_ON = re.compile(r"^Process running with session ID", re.MULTILINE)
_OUTPUT = "Output:\n"  # before what a command wrote
_COUNTS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cached_input_tokens": "cachedInputTokens",
    "cache_write_tokens": "cacheWriteInputTokens",
    "reasoning_tokens": "reasoningOutputTokens",
    "total_tokens": "totalTokens",
}
KEPT_COUNTS = {  # the same in the thread's file, and of `codex exec`
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_input_tokens": "cached_input_tokens",
    "cache_write_tokens": "cache_write_input_tokens",
    "reasoning_tokens": "reasoning_output_tokens",
    "total_tokens": "total_tokens",
}


class Translator:
    """Turns the notifications of one thread into events."""

    def __init__(self) -> None:
        self._total: dict[str, int] = {}
        self._window: int | None = None  # of the model, as the thread reports it
        self._thinking: list[str] = []
        # Calls of a response, by id, which a model may give to two of them.
        self._unbegun = Counter[str]()
        self._response_ended = False
        self._ended: set[str] = set()  # items of the turn that are complete
        self._handlers: dict[str, Callable[[Json], list[ProviderEvent]]] = {
            "item/agentMessage/delta": lambda p: self._delta(TextDelta, p),
            "item/reasoning/summaryTextDelta": lambda p: self._delta(ThinkingDelta, p),
            "item/reasoning/textDelta": lambda p: self._delta(ThinkingDelta, p),
            "item/commandExecution/outputDelta": self._output,
            "turn/plan/updated": _plan,
            "item/started": self._item_started,
            "item/completed": self._item_completed,
            "rawResponseItem/completed": self._raw_item,
            "rawResponse/completed": self._raw_response,
            "thread/tokenUsage/updated": self._usage,
            "error": self._error,
            "warning": lambda p: _notice("warning", p.get("message", "")),
            "guardianWarning": lambda p: _notice("warning", p.get("message", "")),
            "configWarning": lambda p: _notice("info", p.get("summary", "")),
            "deprecationNotice": lambda p: _notice("info", p.get("summary", ""), once=True),
            "model/rerouted": _rerouted,
        }
        self.open_calls: dict[str, Json] = {}  # the vendor's own, by id: the item as it began
        self.terminals: set[str] = set()  # ids of commands that asked for a terminal
        self.reasons: dict[str, str] = {}  # why a call was denied, by id
        self.escalated: set[str] = set()  # ids of calls that want to leave the sandbox
        self.allowed: Mapping[str, Sequence[PermissionRequest]] = {}  # by the tool hook
        self.raw = False  # whether the thread reports raw responses (a resumed one does not)

    def feed(self, method: str, params: Json) -> list[ProviderEvent]:
        """Return the events of a notification. An unknown one has none."""
        handler = self._handlers.get(method)
        return handler(params) if handler else []

    def begun(self, call_id: str) -> list[ProviderEvent]:
        """Note that a call of the response has begun. The last one ends the step."""
        self._unbegun -= Counter((call_id,))
        return self._step()

    def unseen(self, call_id: str, output: object) -> list[ProviderEvent]:
        """Return the events of a call that has no item, such as one that the sandbox stopped."""
        allowed = self.allowed.get(call_id)
        if not allowed or call_id in self.open_calls or call_id in self._ended:
            return []
        finished = _finished_by_output(call_id, output)
        if finished is None:
            return []
        self._ended.add(call_id)
        wanted = allowed[-1]
        return [ToolCallStarted(call_id, wanted.tool, wanted.arguments), finished]

    def finish(self) -> list[ProviderEvent]:
        """Forget the calls of a turn that has ended; return thinking that no message followed."""
        self.open_calls.clear()
        self._ended.clear()
        self._unbegun.clear()
        self._response_ended = False
        thoughts = self._thoughts()
        return [AssistantMessage("", thinking=thoughts)] if thoughts else []

    def _step(self) -> list[ProviderEvent]:
        if not self._response_ended or self._unbegun:
            return []
        self._response_ended = False
        return [StepEnded()]

    def _thoughts(self) -> str | None:
        text = "\n\n".join(self._thinking)
        self._thinking.clear()
        return text or None

    def _delta(
        self, kind: type[TextDelta] | type[ThinkingDelta], params: Json
    ) -> list[ProviderEvent]:
        if str(params.get("itemId")) in self._ended:
            return []  # too late: the whole text is known
        return [kind(str(params.get("delta", "")))]

    def _output(self, params: Json) -> list[ProviderEvent]:
        call_id = str(params.get("itemId"))
        text = str(params.get("delta") or "")
        return [ToolOutput(call_id, text)] if text and call_id in self.open_calls else []

    def _item_started(self, params: Json) -> list[ProviderEvent]:
        item = as_object(params.get("item"))
        call_id = str(item.get("id", ""))
        tool = tool_of(item)
        if call_id in self._ended or call_id in self.open_calls:
            return []  # a repetition, or too late
        if tool is None:
            # An orchestration call begins when it is requested, not when it is announced.
            return [] if item.get("type") == "dynamicToolCall" else self.begun(call_id)
        self.open_calls[call_id] = item
        return [ToolCallStarted(call_id, tool[0], tool[1]), *self.begun(call_id)]

    def _item_completed(self, params: Json) -> list[ProviderEvent]:
        item = as_object(params.get("item"))
        call_id, kind = str(item.get("id", "")), item.get("type")
        if call_id and call_id in self._ended:
            return []  # a repetition
        self._ended.add(call_id)
        if kind == "agentMessage":
            text = str(item.get("text", ""))
            return [AssistantMessage(text, thinking=self._thoughts())] if text else []
        if kind == "reasoning":
            parts = (item.get("summary"), item.get("content"))
            self._thinking += [str(t) for part in parts if isinstance(part, list) for t in part]
            return []
        if kind == "contextCompaction":
            return [Notice("info", "Codex compacted its thread.")]
        tool = tool_of(item)
        if tool is None:
            return self.begun(call_id)
        events: list[ProviderEvent] = []
        if self.open_calls.pop(call_id, None) is None:
            events.append(ToolCallStarted(call_id, *tool))
        reason, finished = self.reasons.pop(call_id, None), finished_call(call_id, item)
        if item.get("status") == _DENIED:
            finished = ToolCallFinished(call_id, "denied", error=reason or "denied")
        return [*events, finished, *self.begun(call_id)]

    def _raw_item(self, params: Json) -> list[ProviderEvent]:
        item = as_object(params.get("item"))
        kind, call_id = str(item.get("type", "")), str(item.get("call_id", ""))
        self.raw = True
        if kind in ("function_call", "custom_tool_call"):
            self._unbegun[call_id] += 1
            arguments = arguments_of(item)
            if arguments.get("tty") is True:
                self.terminals.add(call_id)
            if escalates(arguments):
                self.escalated.add(call_id)
        elif kind.endswith("_call_output"):
            self.terminals.discard(call_id)
            self.escalated.discard(call_id)
            return [*self.unseen(call_id, item.get("output")), *self.begun(call_id)]
        return []

    def _raw_response(self, params: Json) -> list[ProviderEvent]:
        """Report the tokens of a response and end the step.

        The thread's total comes only once Codex asks its model again. By then a budget should have
        ended the turn.
        """
        used = counts_of(params.get("usage"))
        self._total |= {name: self._total.get(name, 0) + count for name, count in used.items()}
        self._response_ended = True
        return [*self._report(used, used.get("total_tokens")), *self._step()]

    def _usage(self, params: Json) -> list[ProviderEvent]:
        usage = as_object(params.get("tokenUsage"))
        counts, last = counts_of(usage.get("total")), counts_of(usage.get("last"))
        window = token_count(usage.get("modelContextWindow"))
        return self._grown(counts, last.get("total_tokens"), window)

    def uncounted(self, usage: Json) -> list[ProviderEvent]:
        """Report the tokens of a response from the thread's file; Codex reported none."""
        counts = counts_of(usage, KEPT_COUNTS)
        total = {name: self._total.get(name, 0) + count for name, count in counts.items()}
        return self._grown(total, counts.get("total_tokens"), None)

    def _grown(
        self, counts: Mapping[str, int], used: int | None, window: int | None
    ) -> list[ProviderEvent]:
        growth = {name: value - self._total.get(name, 0) for name, value in counts.items()}
        self._total |= counts
        known, self._window = self._window, window or self._window
        is_news = any(growth.values()) or known != self._window
        return self._report(growth, used) if is_news else []

    def _report(self, growth: Mapping[str, int], used: int | None) -> list[ProviderEvent]:
        if not growth or min(growth.values()) < 0:
            return []
        return [
            UsageReported(
                TokenUsage(**growth),
                provenance=Provenance.REPORTED,
                context_used=used,
                context_window=self._window,
            )
        ]

    def _error(self, params: Json) -> list[ProviderEvent]:
        if not params.get("willRetry"):
            return []  # the turn's end tells it
        return _notice(
            "warning", f"Codex tries again: {as_object(params.get('error')).get('message')}"
        )


def _notice(level: str, text: object, *, once: bool = False) -> list[ProviderEvent]:
    return [Notice(level, one_line(str(text)), once=once)]


def counts_of(usage: object, keys: Mapping[str, str] = _COUNTS) -> dict[str, int]:
    """Return PRSM's counts of tokens from the vendor's, as far as these are numbers."""
    counts = {name: token_count(as_object(usage).get(key)) for name, key in keys.items()}
    return {name: count for name, count in counts.items() if count is not None}


def arguments_of(item: Json) -> Json:
    """Return the arguments of a call as its model wrote them; none if they cannot be read."""
    try:
        return as_object(json.loads(str(item.get("arguments", ""))))
    except (ValueError, RecursionError):
        return {}


def escalates(arguments: Json) -> bool:
    """Return whether a call asks for more than the sandbox gives."""
    wanted = arguments.get("sandbox_permissions")
    return wanted not in (None, "", "use_default") or bool(arguments.get("additional_permissions"))


def _finished_by_output(call_id: str, output: object) -> ToolCallFinished | None:
    """Return the end of a call from the text that its model got; None if it goes on."""
    parts = as_objects(output)
    text = "\n".join(str(part.get("text", "")) for part in parts) if parts else str(output or "")
    head, mark, written = text.partition(_OUTPUT)
    if not mark:
        return ToolCallFinished(call_id, "failed", error=one_line(text))
    exited = _EXITED.search(head)
    if exited is None:
        goes_on = _GOES_ON.search(head) is not None
        return None if goes_on else ToolCallFinished(call_id, "failed", written, "failed")
    code, result = int(exited[1]), cut_result(written)
    if code == 0:
        return ToolCallFinished(call_id, "completed", result=result, exit_code=0)
    why = f"exit code {code}"
    return ToolCallFinished(call_id, "failed", result=result, error=why, exit_code=code)


def _plan(params: Json) -> list[ProviderEvent]:
    steps = params.get("plan")
    if not isinstance(steps, list):
        return []
    entries = [
        PlanEntry(str(step.get("step", "")), _STATUS.get(str(step.get("status")), "pending"))
        for step in map(as_object, steps)
    ]
    return [PlanUpdated(tuple(entries))]


def _rerouted(params: Json) -> list[ProviderEvent]:
    change = f"from {params.get('fromModel')} to {params.get('toModel')}"
    return _notice("warning", f"The vendor rerouted the model {change}.")


def tool_of(item: Json) -> tuple[str, dict[str, Any]] | None:
    """Return the canonical name and arguments of a vendor tool; None for other items."""
    match item.get("type"):
        case "commandExecution":
            command = approvals.unwrap(str(item.get("command", "")))
            return "Bash", {"command": command} | ({"cwd": item["cwd"]} if "cwd" in item else {})
        case "fileChange":
            return "Edit", approvals.edit_arguments(item)
        case "webSearch":
            return "WebSearch", {"query": item.get("query")}
        case "imageView":
            return "Read", {"path": item.get("path")}
        case "mcpToolCall":
            name = f"mcp__{item.get('server')}__{item.get('tool')}"
            return name, dict(as_object(item.get("arguments")))
    return None


def finished_call(call_id: str, item: Json) -> ToolCallFinished:
    """Return the end of a vendor tool's call."""
    exit_code = item.get("exitCode")
    code = exit_code if type(exit_code) is int else None
    output = item.get("aggregatedOutput")
    if item.get("type") == "mcpToolCall":
        parts = as_objects(as_object(item.get("result")).get("content"))
        output = "\n".join(str(part.get("text", "")) for part in parts)
    elif output is None and code is not None:
        output = ""  # the command wrote nothing
    result = cut_result(str(output)) if output is not None else None
    if item.get("status", "completed") == "completed":
        return ToolCallFinished(call_id, "completed", result=result, exit_code=code)
    error = as_object(item.get("error")).get("message")
    why = str(error) if error else f"exit code {code}" if code is not None else "failed"
    return ToolCallFinished(call_id, "failed", result=result, error=why, exit_code=code)
