"""PRSM runs a tree of coding agents as one system.

This module is the public surface: everything a plugin needs is importable from here, lazily
(PEP 562), so that `import prsm_core` costs nothing.

errors      the exception tree                    domain      immutable values
interfaces  what others implement                 hookspecs   the contract with plugins
plugins     discovery and quarantine              config      settings from files and flags
lifecycle   state machines                        store       the SQLite ledger
messaging   mailboxes and waits                   permissions who may do what
engine      agents, turns, tools, processes       builtin     console, json, JSONL sink
app         puts it together                      cli         the `prsm` command
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "prsm_core.hookspecs": ("hookimpl",),
    "prsm_core.errors": (
        "AgentSpawnError",
        "AgentTimeoutError",
        "ConfigError",
        "DeadlockDetectedError",
        "ExpertNotFoundError",
        "FencedError",
        "InvalidTransitionError",
        "LineTooLongError",
        "MaxDepthExceededError",
        "MessageRoutingError",
        "ModelNotAvailableError",
        "OrchestrationError",
        "PluginError",
        "ProcessError",
        "ProviderNotAvailableError",
        "PrsmError",
        "StoreError",
        "ToolCallTimeoutError",
        "ToolInputError",
    ),
    "prsm_core.domain.agents": (
        "AgentDescriptor",
        "AgentResult",
        "AgentRole",
        "AgentState",
        "ExpertProfile",
        "Grant",
        "PermissionMode",
        "SpawnRequest",
    ),
    "prsm_core.domain.events": ("Event",),
    "prsm_core.domain.messages": ("MessageType", "RoutedMessage"),
    "prsm_core.domain.models": ("ModelCapability", "ModelInfo", "ModelTier", "TaskProfile"),
    "prsm_core.domain.permissions": (
        "Allow",
        "Answer",
        "Ask",
        "Deny",
        "PermissionContext",
        "PermissionRequest",
        "Question",
        "Verdict",
    ),
    "prsm_core.domain.tools": ("McpEndpoint", "McpServer", "ToolOutcome", "ToolSpec"),
    "prsm_core.domain.turns": (
        "AgentError",
        "AgentMessage",
        "AgentToolCall",
        "AssembledContext",
        "AssistantMessage",
        "CompactionResult",
        "ErrorKind",
        "Notice",
        "ProviderEvent",
        "StepEnded",
        "StopReason",
        "TextDelta",
        "ThinkingDelta",
        "TokenBudget",
        "ToolCallFinished",
        "ToolCallStarted",
        "TurnEnded",
        "TurnResult",
        "UsageReported",
    ),
    "prsm_core.domain.usage": ("TokenUsage",),
    "prsm_core.interfaces.clock": ("Clock",),
    "prsm_core.interfaces.frontend": (
        "AppHandle",
        "Frontend",
        "FrontendSpec",
        "RunHandle",
        "RunOptions",
        "RunResult",
    ),
    "prsm_core.interfaces.permission": ("PermissionCheckSpec",),
    "prsm_core.interfaces.provider": (
        "AgentHost",
        "BackgroundTask",
        "Process",
        "Provider",
        "ProviderCapabilities",
        "ProviderServices",
        "ProviderSession",
        "ProviderSpec",
        "ProviderStatus",
        "SessionRequest",
    ),
    "prsm_core.interfaces.scorer": ("ModelScorerSpec",),
    "prsm_core.interfaces.sink": ("EventSink", "EventSinkSpec", "RunInfo"),
    "prsm_core.interfaces.store": ("AgentRow", "SessionInfo", "Store"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'prsm_core' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = sorted(_HOME_OF)
