"""The CLI's messages as provider events, and the tokens and cost of one session. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from prsm_claude import naming
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
    UsageReported,
    cut_result,
)
from prsm_core.kit import as_object, as_objects, one_line, token_count

Json = Mapping[str, Any]
Counts = dict[str, int]

_MAX_COST = 1e6
_KEYS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_EXIT_CODE = re.compile(r"Exit code (\d+)(?:\n|$)")

# Fields of a command's result that is no plain success. The CLI takes exit code 1 of grep, diff and
# others for an answer, and a command may go on in the background.
_NO_SUCCESS = ("returnCodeInterpretation", "backgroundTaskId", "interrupted")
_STATUS = {"in_progress": "in_progress", "completed": "completed"}  # of a todo
_SYNTHETIC = "<synthetic>"  # the model of messages that the CLI itself writes


class UsageMeter:
    """Reports growth. The CLI tells the cost as a sum over the session's whole life.

    spent_usd: What the session has cost so far; None if that is not known.
    """

    def __init__(self, cost_provenance: Provenance = Provenance.REPORTED) -> None:
        self.spent_usd: float | None = 0.0
        self._cost_provenance = cost_provenance
        self._response: Counts = {}
        self._turn: Counts = {}
        self._used: int | None = None
        self._window: int | None = None

    def begin(self, message: Json) -> None:
        """Take the input of a response from its `message_start`."""
        self._response = _counts(message.get("usage"))

    def progress(self, usage: object) -> None:
        """Take the output of a response from its `message_delta`."""
        # An interrupted response tells zeros at its end.
        new, old = _counts(usage), self._response
        self._response = {key: max(new.get(key, 0), old.get(key, 0)) for key in new | old}

    def response_ended(self) -> list[UsageReported]:
        """Report what a response used."""
        counts, self._response = self._response, {}
        if not counts:
            return []
        turn = self._turn
        self._turn = {key: turn.get(key, 0) + counts.get(key, 0) for key in turn | counts}
        self._used = _usage(counts).known_total
        return [self._report(counts)]

    def turn_ended(self, usage: object, by_model: object, cost_usd: object) -> list[UsageReported]:
        """Report what a result adds to the responses: side requests, and the cost."""
        counts, known = _counts(usage), self._turn
        self.turn_lost()
        self._window = _window(by_model) or self._window
        rest = {key: count - known.get(key, 0) for key, count in counts.items()}
        if not any(rest.values()) or min(rest.values()) < 0:
            rest = {}
        grown = self._growth(cost_usd)
        return [self._report(rest, grown)] if rest or grown is not None else []

    def turn_lost(self) -> None:
        """Forget a turn that ends without a result."""
        self._turn, self._response = {}, {}

    def _growth(self, cost_usd: object) -> float | None:
        if isinstance(cost_usd, bool) or not isinstance(cost_usd, (int, float)):
            return None
        total, before = float(cost_usd), self.spent_usd
        if not (math.isfinite(total) and 0 <= total <= _MAX_COST):
            return None
        self.spent_usd = total
        return None if before is None or total < before else total - before

    def _report(self, counts: Counts, cost_usd: float | None = None) -> UsageReported:
        return UsageReported(
            _usage(counts),
            cost_usd=cost_usd,
            cost_provenance=self._cost_provenance,
            context_used=self._used,
            context_window=self._window,
        )


def _counts(usage: object) -> Counts:
    counts = {key: token_count(as_object(usage).get(key)) for key in _KEYS}
    return {key: count for key, count in counts.items() if count is not None}


def _usage(counts: Counts) -> TokenUsage:
    """Return counts as PRSM has them, where the input includes what a cache held."""
    fresh, output = counts.get("input_tokens"), counts.get("output_tokens")
    read = counts.get("cache_read_input_tokens")
    written = counts.get("cache_creation_input_tokens")
    whole = None if fresh is None else fresh + (read or 0) + (written or 0)
    return TokenUsage(
        input_tokens=whole,
        output_tokens=output,
        cached_input_tokens=read,
        cache_write_tokens=written,
        total_tokens=None if whole is None or output is None else whole + output,
    )


def _window(by_model: object) -> int | None:
    """Return the largest context window of the models that were used: the agent's own."""
    models = map(as_object, as_object(by_model).values())
    windows = (token_count(model.get("contextWindow")) for model in models)
    return max(filter(None, windows), default=None)


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


class Translator:
    """Turns the messages of one session into events."""

    def __init__(self, meter: UsageMeter) -> None:
        self._meter = meter
        self._thinking: list[str] = []
        self._announced: dict[str, tuple[str, Json]] = {}  # calls that have not begun, by id
        # Orchestration calls that were announced and not begun. A model may use an id twice.
        self._unbegun = Counter[str]()
        self._begun: set[str] = set()  # calls of the turn that have begun, ended ones included
        self._open: set[str] = set()  # the vendor's calls that run
        self._plans: dict[str, PlanUpdated] = {}  # that open calls make, by id
        self._responding = False
        self._response_ended = False
        self._told: set[Notice] = set()
        self.reasons: dict[str, str] = {}  # why a call was denied, by id
        self.word: str | None = None  # the kind of error that stands in place of an answer
        self.resets_at: float | None = None  # Unix seconds: when a limit that was hit ends

    def begin(self) -> None:
        """Forget the errors of the last turn."""
        self.word = self.resets_at = None

    def feed(self, message: Json) -> list[ProviderEvent]:
        """Return the events of a message, none for one of a subagent of the vendor's own."""
        if message.get("parent_tool_use_id") is not None:
            return []
        match message.get("type"):
            case "stream_event":
                return self._stream(as_object(message.get("event")))
            case "assistant":
                return self._message(message)
            case "user":
                code = exit_code(message)
                return [event for block in blocks(message) for event in self._result(block, code)]
            case "system":
                return self._news(str(message.get("subtype")), message)
            case "rate_limit_event":
                self._limit(as_object(message.get("rate_limit_info")))
        return []

    def begun(self, call_id: str) -> list[ProviderEvent]:
        """Note that an orchestration call has begun. The last one ends the step."""
        self._announced.pop(call_id, None)
        self._begun.add(call_id)
        self._unbegun[call_id] -= 1
        return self._step()

    def started(self, call_id: str, tool: str, arguments: Json) -> list[ProviderEvent]:
        """Note that a call of the vendor's begins."""
        if call_id in self._begun:
            return []  # a repetition
        self._announced.pop(call_id, None)
        self._begun.add(call_id)
        self._open.add(call_id)
        if tool == "TodoWrite":
            self._plans[call_id] = _plan(arguments)
        return [ToolCallStarted(call_id, tool, arguments)]

    def finish(self, result: TurnResult | None = None) -> list[ProviderEvent]:
        """Return the last events of a turn. Its result holds the tokens used."""
        events = [*self._ended_response(), *self._flushed()]
        if result is None:
            self._meter.turn_lost()
        else:
            events += self._meter.turn_ended(result.usage, result.by_model, result.cost_usd)
        self._announced.clear()
        self._unbegun.clear()
        self._begun.clear()
        self._open.clear()
        self._plans.clear()
        self.reasons.clear()
        self._responding = self._response_ended = False
        return events

    def _stream(self, event: Json) -> list[ProviderEvent]:
        match event.get("type"):
            case "message_start":
                self._meter.begin(as_object(event.get("message")))
                self._responding = True
            case "content_block_delta":
                return _delta(as_object(event.get("delta")))
            case "message_delta":
                self._meter.progress(event.get("usage"))
            case "message_stop":
                report = self._meter.response_ended()
                return [*self._flushed(), *report, *self._ended_response()]
        return []

    def _message(self, message: Json) -> list[ProviderEvent]:
        failure = word(message.get("error"))
        if failure or as_object(message.get("message")).get("model") == _SYNTHETIC:
            self.word = failure or self.word
            return []  # the result tells it
        self._responding = True
        events: list[ProviderEvent] = []
        for block in blocks(message):
            match block:
                case {"type": "thinking", "thinking": thinking}:
                    self._thinking.append(str(thinking))
                case {"type": "text", "text": words} if words:
                    events.append(AssistantMessage(str(words), thinking=self._thoughts()))
                case {"type": "tool_use", "id": call_id, "name": name}:
                    self._announce(str(call_id), str(name), as_object(block.get("input")))
        return events

    def _announce(self, call_id: str, name: str, arguments: Json) -> None:
        if naming.is_ours(name):
            self._unbegun[call_id] += 1
        if call_id not in self._begun:  # else its hook came first
            self._announced[call_id] = (name, arguments)

    def _ended_response(self) -> list[ProviderEvent]:
        self._response_ended = self._response_ended or self._responding
        self._responding = False
        return self._step()

    def _step(self) -> list[ProviderEvent]:
        if not self._response_ended or max(self._unbegun.values(), default=0) > 0:
            return []
        self._response_ended = False
        return [StepEnded()]

    def _thoughts(self) -> str | None:
        text = "\n\n".join(self._thinking)
        self._thinking.clear()
        return text or None

    def _flushed(self) -> list[ProviderEvent]:
        thoughts = self._thoughts()
        return [AssistantMessage("", thinking=thoughts)] if thoughts else []

    def _result(self, block: Json, code: int | None) -> list[ProviderEvent]:
        if block.get("type") != "tool_result":
            return []
        call_id = str(block.get("tool_use_id"))
        events: list[ProviderEvent] = []
        name, arguments = self._announced.get(call_id, ("", {}))
        if naming.is_ours(name):  # refused before it was handed over
            return self.begun(call_id)
        if name and not naming.is_question(name):
            events += self.started(call_id, naming.canonical(name), arguments)
        if call_id not in self._open:
            return events
        self._open.discard(call_id)
        finished, plan = self._finished(call_id, block, code), self._plans.pop(call_id, None)
        if plan is not None and finished.status == "completed":
            events.append(plan)
        return [*events, finished]

    def _finished(self, call_id: str, block: Json, code: int | None) -> ToolCallFinished:
        denied = self.reasons.pop(call_id, None)
        if denied is not None:
            return ToolCallFinished(call_id, "denied", error=denied)
        result = cut_result(text(block.get("content")))
        if block.get("is_error"):
            why = one_line(result)
            return ToolCallFinished(call_id, "failed", result=result, error=why, exit_code=code)
        return ToolCallFinished(call_id, "completed", result=result, exit_code=code)

    def _news(self, subtype: str, data: Json) -> list[ProviderEvent]:
        if subtype == "init":
            return [event for event in _server_news(data) if self._is_news(event)]
        notice = _notice(subtype, data)
        return [notice] if notice else []

    def _limit(self, info: Json) -> None:
        resets = info.get("resetsAt") if info.get("status") == "rejected" else None
        known = isinstance(resets, (int, float)) and math.isfinite(resets)
        self.resets_at = resets if known else None

    def _is_news(self, notice: Notice) -> bool:
        is_news = notice not in self._told
        self._told.add(notice)
        return is_news


def _plan(arguments: Json) -> PlanUpdated:
    todos = arguments.get("todos")
    entries = [
        PlanEntry(str(todo.get("content", "")), _STATUS.get(str(todo.get("status")), "pending"))
        for todo in map(as_object, todos if isinstance(todos, list) else ())
    ]
    return PlanUpdated(tuple(entries))


def _delta(delta: Json) -> list[ProviderEvent]:
    match delta.get("type"):
        case "text_delta":
            return [TextDelta(str(delta.get("text", "")))]
        case "thinking_delta":
            return [ThinkingDelta(str(delta.get("thinking", "")))]
    return []


def _notice(subtype: str, data: Json) -> Notice | None:
    match subtype:
        case "api_retry":
            status = data.get("error_status") or "no connection"
            why = f"{status} {data.get('error') or ''}"
            return Notice("warning", one_line(f"Claude tries again: {why}"))
        case "model_fallback":
            cause = data.get("trigger") or "unknown"
            return Notice("warning", one_line(f"Claude fell back to another model: {cause}"))
        case "compact_boundary":
            return Notice("info", "Claude compacted its conversation.")
        case "informational":
            return Notice("info", one_line(str(data.get("content", ""))))
    return None


def _server_news(init: Json) -> list[Notice]:
    """Warn of MCP servers that are missing. The agent would silently lack their tools."""
    texts = (
        f"The MCP server {server.get('name')} is not there: {server['status']}"
        for server in as_objects(init.get("mcp_servers"))
        if server.get("status") in ("failed", "needs-auth")
    )
    return [Notice("warning", one_line(text)) for text in texts]
