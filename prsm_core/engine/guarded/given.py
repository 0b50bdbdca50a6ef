"""What providers give, field by field: the tables by which it is checked as it crosses over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prsm_core.domain.models import ModelInfo
from prsm_core.domain.turns import (
    AgentError,
    AssistantMessage,
    ErrorKind,
    Notice,
    PlanEntry,
    PlanUpdated,
    StepEnded,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnEnded,
    UsageReported,
)
from prsm_core.domain.usage import Provenance, TokenUsage
from prsm_core.interfaces.provider import ProviderCapabilities, ProviderStatus
from prsm_core.kit.sanitize import MAX_DEPTH
from prsm_core.plugins.values import (
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    WHOLE,
    Kind,
    Table,
    first_problem,
    instance,
    many,
    maybe,
    one_of,
)


def is_json(value: Any, depth: int = 0) -> bool:
    """Return whether a value can be written as JSON."""
    if value is None or isinstance(value, str | int | float | bool):
        return True
    if depth > MAX_DEPTH:
        return True  # what is nested deeper is cut off
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_json(value[key], depth + 1) for key in value)
    return isinstance(value, list | tuple) and all(is_json(inner, depth + 1) for inner in value)


def _of_table(table: Table, words: str) -> Kind:
    return Kind(words, lambda value: first_problem(value, table) is None)


_MAYBE_TEXT, _MAYBE_WHOLE = maybe(TEXT), maybe(WHOLE)
_ARGUMENTS = Kind(
    "a mapping of JSON values", lambda value: isinstance(value, Mapping) and is_json(value)
)
_USAGE: Table = {TokenUsage: dict.fromkeys(TokenUsage.__struct_fields__, _MAYBE_WHOLE)}
_ERROR: Table = {
    AgentError: {
        "kind": instance(ErrorKind),
        "message": TEXT,
        "retryable": FLAG,
        "retry_after_s": maybe(NUMBER),
    }
}
_ENTRY: Table = {PlanEntry: {"text": TEXT, "status": one_of("pending", "in_progress", "completed")}}

STATUS: Table = {
    ProviderStatus: {
        "available": FLAG,
        **dict.fromkeys(("version", "tested", "reason", "hint"), _MAYBE_TEXT),
        "logged_in": maybe(FLAG),
        "gaps": TEXTS,
    }
}
CAPABILITIES: Table = {
    ProviderCapabilities: {
        **dict.fromkeys(("supports_master", "steer", "streams", "shell_reads", "asks_edits"), FLAG),
        **dict.fromkeys(("boxes", "compacts", "images", "own_process"), FLAG),
        "enforcement": one_of("pre_tool", "approval", "sandbox", "none"),
        "resume": one_of("call", "native", "rebuild", "none"),
        "parameters": many(one_of("max_response_tokens", "temperature")),
        "skills": TEXTS,
        **dict.fromkeys(("tokens_told", "cost_told"), one_of("step", "turn", "none")),
    }
}
MODELS: Table = {
    ModelInfo: {
        "model_id": TEXT,
        "display_name": _MAYBE_TEXT,
        "context_window": _MAYBE_WHOLE,
        "reasoning_efforts": TEXTS,
        "hidden": FLAG,
        "aliases": TEXTS,
    }
}
EVENTS: Table = {
    TextDelta: {"text": TEXT},
    ThinkingDelta: {"text": TEXT},
    AssistantMessage: {"text": TEXT, "thinking": _MAYBE_TEXT},
    ToolCallStarted: {"call_id": TEXT, "tool": TEXT, "arguments": _ARGUMENTS},
    ToolCallFinished: {
        "call_id": TEXT,
        "status": one_of("completed", "failed", "denied"),
        "result": _MAYBE_TEXT,
        "error": _MAYBE_TEXT,
        "is_whole": FLAG,
        "exit_code": _MAYBE_WHOLE,
    },
    ToolOutput: {"call_id": TEXT, "text": TEXT},
    PlanUpdated: {"entries": many(_of_table(_ENTRY, "a PlanEntry of a text and its status"))},
    UsageReported: {
        "usage": _of_table(_USAGE, "a TokenUsage of whole numbers"),
        "cost_usd": maybe(NUMBER),
        "provenance": instance(Provenance),
        "cost_provenance": instance(Provenance),
        "context_used": _MAYBE_WHOLE,
        "context_window": _MAYBE_WHOLE,
    },
    StepEnded: {},
    Notice: {"level": one_of("info", "warning", "error"), "text": TEXT, "once": FLAG},
    TurnEnded: {
        "stop_reason": instance(StopReason),
        "error": maybe(_of_table(_ERROR, "an AgentError whose fields are what they must be")),
    },
}
