"""Session updates as provider events, and growth of tokens and cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from prsm_acp import files, tools
from prsm_acp.manifest import UsageFrom
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
)
from prsm_core.kit import as_object, one_line, token_count

if TYPE_CHECKING:
    from prsm_acp.manifest import Manifest

Json = Mapping[str, Any]
_ENDS = ("completed", "failed")
_STATUS = {"in_progress": "in_progress", "completed": "completed"}  # of an entry of a plan
_MAX_COST = 1e6  # US dollars
_RESPONSE = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cached_input_tokens": "cachedReadTokens",
    "cache_write_tokens": "cachedWriteTokens",
    "reasoning_tokens": "thoughtTokens",
    "total_tokens": "totalTokens",
}
_QUOTA = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}


class Translator:
    """Turns the updates of one session into events.

    Nothing marks the end of a message: it ends when something else follows.
    """

    def __init__(self, manifest: Manifest, is_orchestration: Callable[[str], bool]) -> None:
        self._name = manifest.name
        self._quirks = manifest.quirks
        self._is_orchestration = is_orchestration
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._message_id: object = None
        self._calls: dict[str, dict[str, Any]] = {}  # what is known of each open call
        self._started: set[str] = set()
        self._outputs: dict[str, str] = {}  # what open calls have written so far
        self._ended: set[str] = set()
        self._has_called = False  # since the last response of the model began
        self.mode: str | None = None  # that the agent was put into
        self.failure: str | None = None  # what the agent said last, if that tells of a failure
        self.usage = UsageMeter(manifest.usage)
        self._handlers: dict[str, Callable[[Json], list[ProviderEvent]]] = {
            "agent_message_chunk": self._said,
            "agent_thought_chunk": self._thought,
            "tool_call": self._called,
            "tool_call_update": self._called,
            "plan": _plan,
            "usage_update": self.note_usage,
            "current_mode_update": self._mode_changed,
        }

    def feed(self, update: Json) -> list[ProviderEvent]:
        """Return the events of an update; an unknown one has none."""
        handler = self._handlers.get(str(update.get("sessionUpdate")))
        return handler(update) if handler else []

    def note_usage(self, update: Json) -> list[ProviderEvent]:
        """Return the event of a `usage_update`, also of one that comes between turns."""
        report = self.usage.told(update)
        return [report] if report else []

    def asked(self, call: Json) -> tuple[Json, list[ProviderEvent]]:
        """Return what is known of a call that needs permission, and its events. It may be new."""
        call_id = str(call.get("toolCallId", ""))
        if call_id in self._ended:
            return call, []
        known = self._merged(call_id, call)
        if self._quirks.free_titles:  # a name that the model chose must not pass for a tool's
            known = {key: value for key, value in known.items() if key != "title"}
        return known, [*self._flush(), *self._start(call_id, known)]

    def denied(self, call: Json, reason: str) -> list[ProviderEvent]:
        """End a call that was refused: some agents never mention it again."""
        return self._end(str(call.get("toolCallId", "")), "denied", error=reason)

    def open_call_on(self, path: str) -> str | None:
        """Return the newest open call that names a file, given by its real path, if any does."""
        for call_id, call in reversed(self._calls.items()):
            paths = filter(files.is_usable, tools.paths_of(call))
            if call_id in self._started and path in map(files.real_path, paths):
                return call_id
        return None

    def is_ours(self, call: Json) -> bool:
        """Return whether a call is of a tool of PRSM's own server."""
        tool = tools.server_tool(call)
        return tool is not None and self._is_orchestration(tool)

    def finish(self) -> list[ProviderEvent]:
        """Return what a turn that has ended leaves open."""
        events = self._flush()
        self._calls.clear()
        self._started.clear()
        self._outputs.clear()
        self._ended.clear()
        self._has_called = False
        self.failure = None
        return events

    def _said(self, update: Json) -> list[ProviderEvent]:
        text, report = _text(update), self.usage.said(update)
        if report is not None:
            return [*(self._spoken(text, update) if text else []), report]
        is_noise = not self._text and text.startswith(self._quirks.noise)
        return [] if not text or is_noise else self._spoken(text, update)

    def _spoken(self, text: str, update: Json) -> list[ProviderEvent]:
        is_failure = not self._text and text.startswith(self._quirks.failures)
        self.failure = text if is_failure else None
        message_id = update.get("messageId")
        events = self._flush() if self._text and message_id != self._message_id else []
        events += self._next_step()
        self._message_id = message_id
        self._text.append(text)
        return [*events, TextDelta(text)]

    def _thought(self, update: Json) -> list[ProviderEvent]:
        text = _text(update)
        if self._quirks.thought_noise:
            text = text.replace(self._quirks.thought_noise, "")
        if not text:
            return []
        events = self._flush() if self._text else []
        events += self._next_step()
        self._thinking.append(text)
        return [*events, ThinkingDelta(text)]

    def _flush(self) -> list[ProviderEvent]:
        if not self._text and not self._thinking:
            return []
        message = AssistantMessage("".join(self._text), thinking="".join(self._thinking) or None)
        self._text.clear()
        self._thinking.clear()
        return [message]

    def _next_step(self) -> list[ProviderEvent]:
        """End the last response once the model speaks again and all its calls were answered."""
        if not self._has_called or self._calls:
            return []
        self._has_called = False
        return [StepEnded()]

    def _called(self, update: Json) -> list[ProviderEvent]:
        call_id = str(update.get("toolCallId", ""))
        if not call_id or call_id in self._ended:
            return []
        known = self._merged(call_id, update)
        events = self._flush()
        status = known.get("status")
        if status in _ENDS:
            events += self._start(call_id, known)
            result = tools.result_of(known)
            ended = self._end(
                call_id,
                str(status),
                result=result,
                error=_last_line(result) if status == "failed" else None,
                is_whole=tools.is_whole(known),
                exit_code=tools.exit_code(known),
            )
            return [*events, *ended]
        if status == "in_progress" or tools.knows_arguments(known):
            events += self._start(call_id, known)
        return [*events, *self._written(call_id, update)]

    def _written(self, call_id: str, update: Json) -> list[ProviderEvent]:
        """Return what a running call has written since its last update, which tells it whole."""
        # The content at the beginning of a call is the model's own.
        is_begin = update.get("sessionUpdate") == "tool_call"
        if is_begin or call_id not in self._started or update.get("content") is None:
            return []
        text, before = tools.result_of(update) or "", self._outputs.get(call_id, "")
        if len(text) <= len(before) or not text.startswith(before):
            return []
        self._outputs[call_id] = text
        return [ToolOutput(call_id, text[len(before) :])]

    def _merged(self, call_id: str, update: Json) -> dict[str, Any]:
        """Add an update to what is known of a call; return all of it."""
        self.failure = None
        known = self._calls.setdefault(call_id, {})
        known |= {key: value for key, value in update.items() if _is_news(known, key, value)}
        name = tools.own_name(update, named_ids=self._quirks.named_ids)
        if name is not None:
            known[tools.OWN_NAME] = name
        self._has_called = True
        return known

    def _start(self, call_id: str, call: Json) -> list[ProviderEvent]:
        if call_id in self._started or self._is_hidden(call):
            return []
        self._started.add(call_id)
        return [ToolCallStarted(call_id, tools.tool_name(call), tools.arguments_of(call))]

    def _end(self, call_id: str, status: str, **outcome: Any) -> list[ProviderEvent]:
        self._calls.pop(call_id, None)
        self._outputs.pop(call_id, None)
        self._ended.add(call_id)
        if call_id not in self._started:
            return []  # one of PRSM's own, or one that never began
        self._started.discard(call_id)
        return [ToolCallFinished(call_id, status, **outcome)]

    def _is_hidden(self, call: Json) -> bool:
        """Whether the engine records the call itself, as one of PRSM's own.

        This needs less proof than a permission: a call that is wrongly hidden is only not shown.
        """
        bare = tools.bare_name(call)
        return self.is_ours(call) or (bare is not None and self._is_orchestration(bare))

    def _mode_changed(self, update: Json) -> list[ProviderEvent]:
        mode = str(update.get("currentModeId"))
        has_changed = self.mode is not None and mode != self.mode
        self.mode = mode
        text = one_line(f"{self._name} is in mode {mode} now")
        return [Notice("warning", text)] if has_changed else []


def _plan(update: Json) -> list[ProviderEvent]:
    entries = update.get("entries")
    if not isinstance(entries, list):
        return []
    plan = [
        PlanEntry(str(entry.get("content", "")), _STATUS.get(str(entry.get("status")), "pending"))
        for entry in map(as_object, entries)
    ]
    return [PlanUpdated(tuple(plan))]


def _is_news(known: Json, key: str, value: object) -> bool:
    """Whether a value says more than what is known already."""
    before = known.get(key)
    if key == "kind" and before is not None:
        return value != "other"
    return value is not None and bool(value or not before)


def _text(update: Json) -> str:
    text = as_object(update.get("content")).get("text")
    return text if isinstance(text, str) else ""


def _last_line(result: str | None) -> str:
    lines = (result or "").strip().splitlines()
    return lines[-1] if lines else "failed"


class UsageMeter:
    """Remembers what was told, so that each report is what was used since the last."""

    def __init__(self, source: UsageFrom) -> None:
        self._source = source
        self._total: dict[str, int] = {}
        self._cost = 0.0

    def told(self, update: Mapping[str, Any]) -> UsageReported | None:
        """Return the report of a `usage_update`: context and cost, whose total the vendor keeps."""
        cost = self._growth(as_object(update.get("cost")))
        used, window = token_count(update.get("used")), token_count(update.get("size"))
        if cost is None and used is None:
            return None
        return UsageReported(
            TokenUsage(),
            cost_usd=cost,
            cost_provenance=Provenance.REPORTED,
            context_used=used,
            context_window=window,
        )

    def said(self, update: Mapping[str, Any]) -> UsageReported | None:
        """Return the report of a message chunk: the tokens of one response."""
        if self._source is not UsageFrom.CHUNKS:
            return None
        counts = _counts(as_object(update.get("_meta")).get("usage"), _RESPONSE)
        return UsageReported(TokenUsage(**counts)) if counts else None

    def answered(self, reply: Mapping[str, Any]) -> UsageReported | None:
        """Return the report of a prompt's answer: the tokens of the turn."""
        match self._source:
            case UsageFrom.QUOTA:
                quota = as_object(as_object(reply.get("_meta")).get("quota"))
                counts = _counts(quota.get("token_count"), _QUOTA)
            case UsageFrom.NONE | UsageFrom.CHUNKS:
                counts = {}
            case _:
                counts = _counts(reply.get("usage"), _RESPONSE)
        if self._source is not UsageFrom.SESSION:
            for name, count in counts.items():
                self._total[name] = self._total.get(name, 0) + count
            return UsageReported(TokenUsage(**counts)) if counts else None
        growth = {name: count - self._total.get(name, 0) for name, count in counts.items()}
        self._total |= counts
        if not any(growth.values()) or min(growth.values()) < 0:
            return None
        return UsageReported(TokenUsage(**growth), provenance=Provenance.REPORTED)

    def kept(self, counts: Mapping[str, int]) -> UsageReported | None:
        """Return the report of what a session has used, as it keeps it itself."""
        growth = {name: max(0, n - self._total.get(name, 0)) for name, n in counts.items()}
        self._total |= counts
        return UsageReported(TokenUsage(**growth)) if any(growth.values()) else None

    def _growth(self, cost: Mapping[str, Any]) -> float | None:
        amount = cost.get("amount")
        if cost.get("currency") != "USD" or not isinstance(amount, (int, float)):
            return None
        if not math.isfinite(amount) or not self._cost < amount < _MAX_COST:
            return None
        growth, self._cost = amount - self._cost, float(amount)
        return growth


def _counts(usage: Any, names: Mapping[str, str]) -> dict[str, int]:
    counts = {name: token_count(as_object(usage).get(key)) for name, key in names.items()}
    return {name: count for name, count in counts.items() if count is not None}
