"""Secrecy: a step without the secrets in its texts, as the ledger gets it.

What an agent said stays as it is in memory, for the one model that owns it and for the program it
told to run; whatever is written down passes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from prsm_core.domain.agents import AgentDescriptor, AgentResult
from prsm_core.domain.messages import RoutedMessage
from prsm_core.domain.steps import (
    AgentEndStep,
    CallClose,
    CallCloseStep,
    CallOpenStep,
    ControlStep,
    HumanRequest,
    Resolution,
    SpawnStep,
    StateChange,
    TurnCloseStep,
    TurnOpenStep,
)
from prsm_core.domain.tools import McpServer
from prsm_core.domain.turns import (
    AgentError,
    AgentMessage,
    AgentToolCall,
    CompactionResult,
    TurnResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from prsm_core.domain.steps import Step

S = TypeVar("S", bound="Step")

# The fields that hold what somebody wrote; all others are ids, names, numbers and states.
WRITTEN: Mapping[type, tuple[str, ...]] = {
    AgentDescriptor: ("prompt", "system_prompt", "mcp_servers"),
    AgentError: ("message",),
    AgentMessage: ("content", "thinking"),
    AgentResult: ("summary", "artifacts", "error", "evidence_gaps", "evidence_by"),
    AgentToolCall: ("tool_name", "params", "result", "error"),
    CallClose: ("result",),
    CompactionResult: ("summary",),
    HumanRequest: ("payload",),
    McpServer: ("args", "env", "url", "headers"),
    Resolution: ("answer",),
    RoutedMessage: ("payload",),
    StateChange: ("reason",),
    TurnResult: ("messages", "tool_calls", "error", "compaction", "permissions_used"),
    SpawnStep: ("agent", "messages", "changes"),
    TurnOpenStep: ("messages", "changes"),
    CallOpenStep: ("call", "messages", "changes"),
    CallCloseStep: ("close", "messages", "changes"),
    TurnCloseStep: ("result", "messages", "changes"),
    AgentEndStep: ("result", "close", "resolutions", "messages", "changes"),
    ControlStep: ("prompt", "requests", "resolutions", "result", "data", "messages", "changes"),
}


def without_secrets(step: S, redact: Callable[[Any], Any]) -> S:
    """Return the step with every text in it redacted; its events are redacted as they are made.

    Args:
        step: What is about to be committed.
        redact: Redacts JSON values.
    """
    clean: S = _clean(step, redact)
    return clean


def _clean(value: Any, redact: Callable[[Any], Any]) -> Any:
    if not value or isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(key): _clean(item, redact) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_clean(item, redact) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if is_dataclass(value) and not isinstance(value, type):
        return _clean_record(value, redact)
    return value


def _clean_record(record: Any, redact: Callable[[Any], Any]) -> Any:
    changed = {}
    for name in WRITTEN[type(record)]:
        value = getattr(record, name)
        if value:
            clean = _clean(value, redact)
            if clean != value:
                changed[name] = clean
    return replace(record, **changed) if changed else record
