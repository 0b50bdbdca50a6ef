"""App-server notifications as provider events; pure, one translator per thread."""

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
_OUTPUT = "Output:\n"  # behind it stands what a command wrote
_COUNTS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cached_input_tokens": "cachedInputTokens",
    "cache_write_tokens": "cacheWriteInputTokens",
    "reasoning_tokens": "reasoningOutputTokens",
    "total_tokens": "totalTokens",
}
_KEPT_COUNTS = {  # the same in the thread's file
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_input_tokens": "cached_input_tokens",
    "cache_write_tokens": "cache_write_input_tokens",
    "reasoning_tokens": "reasoning_output_tokens",
    "total_tokens": "total_tokens",
}


class Translator:
    """Turns the notifications of one thread into events.

    It remembers what spans several of them: the token total, the vendor's open calls, thinking
    that has no message yet, and the calls of a response that have not begun.
    """

    def __init__(self) -> None:
        self._total: dict[str, int] = {}
        self._window: int | None = None  # of the model, as the thread has told it
        self._thinking: list[str] = []
        self._unbegun = Counter[str]()  # by id, which a model may give to two calls
        self._response_ended = False
        self._ended: set[str] = set()  # items of the turn that were told to be complete
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
            "warning": lambda p: [Notice("warning", one_line(str(p.get("message", ""))))],
            "guardianWarning": lambda p: [Notice("warning", one_line(str(p.get("message", ""))))],
            "configWarning": lambda p: [Notice("info", one_line(str(p.get("summary", ""))))],
            "deprecationNotice": lambda p: [
                Notice("info", one_line(str(p.get("summary", ""))), once=True)
            ],
            "model/rerouted": _rerouted,
        }
        self.open_calls: dict[str, Json] = {}  # the vendor's own, by id: the item as it began
        self.terminals: set[str] = set()  # ids of commands that asked for a terminal
        self.reasons: dict[str, str] = {}  # why a call was denied, by id
        self.escalated: set[str] = set()  # ids of calls that want to leave the sandbox
        self.allowed: Mapping[str, Sequence[PermissionRequest]] = {}  # by the tool hook
        self.raw = False  # whether the thread tells of raw responses (a resumed one does not)

    def feed(self, method: str, params: Json) -> list[ProviderEvent]:
        """Return the events of a notification; an unknown one has none."""
        handler = self._handlers.get(method)
        return handler(params) if handler else []

    def begun(self, call_id: str) -> list[ProviderEvent]:
        """Note that a call of the response is known; the last one ends the step."""
        self._unbegun -= Counter((call_id,))
        return self._step()

    def unseen(self, call_id: str, output: object) -> list[ProviderEvent]:
        """Return the events of a call by what its model was told, unless its item has told them.

        Codex tells nothing else of a command that its sandbox stops.
        """
        allowed = self.allowed.get(call_id)
        if not allowed or call_id in self.open_calls or call_id in self._ended:
            return []
        finished = _told_to_model(call_id, output)
        if finished is None:
            return []
        self._ended.add(call_id)
        wanted = allowed[-1]
        return [ToolCallStarted(call_id, wanted.tool, wanted.arguments), finished]

    def finish(self) -> list[ProviderEvent]:
        """Return the thinking that a turn leaves without a message, and forget its calls."""
        thoughts = self._thoughts()
        events: list[ProviderEvent] = [AssistantMessage("", thinking=thoughts)] if thoughts else []
        self.open_calls.clear()
        self._ended.clear()
        self._unbegun.clear()
        self._response_ended = False
        return events

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
            return []  # too late: the whole text was told
        return [kind(str(params.get("delta", "")))]

    def _output(self, params: Json) -> list[ProviderEvent]:
        call_id = str(params.get("itemId"))
        text = str(params.get("delta") or "")
        return [ToolOutput(call_id, text)] if text and call_id in self.open_calls else []

    def _item_started(self, params: Json) -> list[ProviderEvent]:
        item = as_object(params.get("item"))
        call_id = str(item.get("id", ""))
        tool = _tool(item)
        if call_id in self._ended or call_id in self.open_calls:
            return []  # told twice, or too late
        if tool is None:
            # an orchestration call has begun when it is asked for, not when it is announced
            return [] if item.get("type") == "dynamicToolCall" else self.begun(call_id)
        self.open_calls[call_id] = item
        return [ToolCallStarted(call_id, tool[0], tool[1]), *self.begun(call_id)]

    def _item_completed(self, params: Json) -> list[ProviderEvent]:
        item = as_object(params.get("item"))
        call_id, kind = str(item.get("id", "")), item.get("type")
        if call_id and call_id in self._ended:
            return []  # told twice
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
        tool = _tool(item)
        if tool is None:
            return self.begun(call_id)
        events: list[ProviderEvent] = []
        if self.open_calls.pop(call_id, None) is None:
            events.append(ToolCallStarted(call_id, *tool))
        return [*events, self._finished(call_id, item), *self.begun(call_id)]

    def _finished(self, call_id: str, item: Json) -> ToolCallFinished:
        status = str(item.get("status", "completed"))
        denied = self.reasons.pop(call_id, None)
        if status == _DENIED:
            return ToolCallFinished(call_id, "denied", error=denied or "denied")
        result = _result(item)
        text = cut_result(result) if result is not None else None
        code = _exit_code(item)
        if status == "completed":
            return ToolCallFinished(call_id, "completed", result=text, exit_code=code)
        why = _failure(item)
        return ToolCallFinished(call_id, "failed", result=text, error=why, exit_code=code)

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
        """End the step, and tell before what it used: a budget ends the turn before the next one.

        The thread's total comes only once the calls of the response are answered, as Codex asks
        its model again.
        """
        used = _counts(params.get("usage"))
        self._total |= {name: self._total.get(name, 0) + count for name, count in used.items()}
        self._response_ended = True
        return [*self._report(used, used.get("total_tokens")), *self._step()]

    def _usage(self, params: Json) -> list[ProviderEvent]:
        """Report the growth of the thread's total; what a failed turn repeats is not growth."""
        told = as_object(params.get("tokenUsage"))
        counts, last = _counts(told.get("total")), _counts(told.get("last"))
        window = token_count(told.get("modelContextWindow"))
        return self._grown(counts, last.get("total_tokens"), window)

    def uncounted(self, usage: Json) -> list[ProviderEvent]:
        """Report the tokens of a response as the thread's file has them; Codex told none."""
        counts = {name: token_count(usage.get(key)) for name, key in _KEPT_COUNTS.items()}
        known = {name: count for name, count in counts.items() if count is not None}
        total = {name: self._total.get(name, 0) + count for name, count in known.items()}
        return self._grown(total, known.get("total_tokens"), None)

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
        report = UsageReported(
            TokenUsage(**growth),
            provenance=Provenance.REPORTED,
            context_used=used,
            context_window=self._window,
        )
        return [report]

    def _error(self, params: Json) -> list[ProviderEvent]:
        if not params.get("willRetry"):
            return []  # the turn's end tells it
        message = as_object(params.get("error")).get("message")
        return [Notice("warning", one_line(f"Codex tries again: {message}"))]


def _counts(told: Any) -> dict[str, int]:
    found = {name: token_count(as_object(told).get(key)) for name, key in _COUNTS.items()}
    return {name: count for name, count in found.items() if count is not None}


def arguments_of(item: Json) -> Json:
    """Return the arguments of a call as its model wrote them; none where they cannot be read."""
    try:
        return as_object(json.loads(str(item.get("arguments", ""))))
    except (ValueError, RecursionError):
        return {}


def escalates(arguments: Json) -> bool:
    """Return whether a call asks for more than the sandbox gives."""
    wanted = arguments.get("sandbox_permissions")
    return wanted not in (None, "", "use_default") or bool(arguments.get("additional_permissions"))


def _told_to_model(call_id: str, output: object) -> ToolCallFinished | None:
    """Return the end of a call by the text that its model got; None where it goes on."""
    parts = as_objects(output) if isinstance(output, list) else ()
    text = "\n".join(str(part.get("text", "")) for part in parts) if parts else str(output or "")
    head, mark, wrote = text.partition(_OUTPUT)
    if not mark:
        return ToolCallFinished(call_id, "failed", error=one_line(text))
    exited = _EXITED.search(head)
    if exited is None:
        return (
            None if _GOES_ON.search(head) else ToolCallFinished(call_id, "failed", wrote, "failed")
        )
    code, result = int(exited[1]), cut_result(wrote)
    if code == 0:
        return ToolCallFinished(call_id, "completed", result=result, exit_code=0)
    why = f"exit code {code}"
    return ToolCallFinished(call_id, "failed", result=result, error=why, exit_code=code)


def _plan(params: Json) -> list[ProviderEvent]:
    given = params.get("plan")
    if not isinstance(given, list):
        return []
    steps = [as_object(step) for step in given]
    told = ((str(step.get("step", "")), _STATUS.get(str(step.get("status")))) for step in steps)
    return [PlanUpdated(tuple(PlanEntry(text, status or "pending") for text, status in told))]


def _rerouted(params: Json) -> list[ProviderEvent]:
    changed = f"from {params.get('fromModel')} to {params.get('toModel')}"
    return [Notice("warning", one_line(f"The vendor rerouted the model {changed}."))]


def _tool(item: Json) -> tuple[str, dict[str, Any]] | None:
    """Return the canonical name and arguments of a vendor tool; None for other items."""
    match item.get("type"):
        case "commandExecution":
            command = approvals.unwrap(str(item.get("command", "")))
            return "Bash", {"command": command, "cwd": item.get("cwd")}
        case "fileChange":
            return "Edit", approvals.edit_arguments(item)
        case "webSearch":
            return "WebSearch", {"query": item.get("query")}
        case "imageView":
            return "Read", {"path": item.get("path")}
        case "mcpToolCall":
            arguments = item.get("arguments")
            name = f"mcp__{item.get('server')}__{item.get('tool')}"
            return name, dict(arguments) if isinstance(arguments, Mapping) else {}
    return None


def _result(item: Json) -> str | None:
    if item.get("type") == "mcpToolCall":
        parts = as_objects(as_object(item.get("result")).get("content"))
        return "\n".join(str(part.get("text", "")) for part in parts)
    output = item.get("aggregatedOutput")
    if output is None and item.get("exitCode") is not None:
        return ""  # it ended and wrote nothing
    return str(output) if output is not None else None


def _exit_code(item: Json) -> int | None:
    code = item.get("exitCode")
    return code if type(code) is int else None


def _failure(item: Json) -> str:
    error = as_object(item.get("error")).get("message")
    if error:
        return str(error)
    code = item.get("exitCode")
    return f"exit code {code}" if code is not None else "failed"
