"""PRSM runs a tree of coding agents as one system.

This module is the public surface: everything a plugin needs is importable from here, lazily
(PEP 562), so that `import prsm_core` costs nothing.

cli         the `prsm` command                sim          whole runs from a seed
testing     for plugin authors                app          puts it together
builtin     console, json, JSONL sink         toolserver   the tools as an MCP server
engine      agents, turns, tools, processes   store        the SQLite ledger
messaging   mailboxes and waits               permissions  who may do what
catalog     models, and which fits            workspace    the user's files
lifecycle   state machines                    plugins      discovery and quarantine
config      settings from files and flags     hookspecs    the contract with plugins
kit         what providers are made with      interfaces   what others implement
domain      immutable values                  distributions  packages that are installed
loop        the event loop of commands        shell        what a text runs under bash
errors      the exception tree                hub          many sessions in one process
version     of this core
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost more than everything else here

if TYPE_CHECKING:
    from prsm_core.domain.account import Problem
    from prsm_core.domain.agents import (
        UNCHECKED,
        AgentDescriptor,
        AgentResult,
        AgentRole,
        AgentState,
        ExpertProfile,
        Grant,
        PermissionMode,
        SpawnRequest,
    )
    from prsm_core.domain.boxes import Box
    from prsm_core.domain.budgets import Budget, BudgetKind
    from prsm_core.domain.events import Event
    from prsm_core.domain.images import Image
    from prsm_core.domain.messages import MessageType, RoutedMessage
    from prsm_core.domain.models import ModelCapability, ModelInfo, ModelTier, TaskProfile
    from prsm_core.domain.permissions import (
        Allow,
        Answer,
        Ask,
        Deny,
        PermissionContext,
        PermissionRequest,
        Question,
        Verdict,
    )
    from prsm_core.domain.sessions import (
        AgentNow,
        AskedQuestion,
        CallState,
        Origin,
        RunNow,
        SessionState,
        TurnEnd,
        TurnState,
    )
    from prsm_core.domain.snapshots import SessionSnapshot
    from prsm_core.domain.tools import (
        EDIT_TOOLS,
        NATIVE_TOOLS,
        ORCHESTRATION_TOOLS,
        McpEndpoint,
        McpServer,
        ToolOutcome,
        ToolSpec,
    )
    from prsm_core.domain.turns import (
        AbortSignal,
        AgentError,
        AgentMessage,
        AgentToolCall,
        AssembledContext,
        AssistantMessage,
        CompactionResult,
        Effect,
        ErrorKind,
        Notice,
        PlanEntry,
        PlanUpdated,
        ProviderEvent,
        StepEnded,
        StopReason,
        TextDelta,
        ThinkingDelta,
        TokenBudget,
        ToolCallFinished,
        ToolCallStarted,
        ToolOutput,
        TurnEnded,
        TurnResult,
        UsageReported,
        cut_result,
    )
    from prsm_core.domain.usage import Provenance, Spent, TokenUsage
    from prsm_core.errors import (
        AgentSpawnError,
        AgentTimeoutError,
        BudgetExceededError,
        ConfigError,
        ControlError,
        DeadlockDetectedError,
        ExpertNotFoundError,
        FencedError,
        InvalidTransitionError,
        LineTooLongError,
        MaxDepthExceededError,
        MessageRoutingError,
        ModelNotAvailableError,
        OrchestrationError,
        PluginError,
        ProcessError,
        ProviderNotAvailableError,
        PrsmError,
        RunAbortedError,
        SessionOwnedError,
        StoreError,
        ToolCallTimeoutError,
        ToolInputError,
    )
    from prsm_core.hookspecs import hookimpl
    from prsm_core.interfaces.app_handle import AppHandle, RunHandle
    from prsm_core.interfaces.clock import Clock, Timer
    from prsm_core.interfaces.frontend import Frontend, FrontendSpec
    from prsm_core.interfaces.hub import Hub, HubFrontend
    from prsm_core.interfaces.permission import PermissionCheckSpec
    from prsm_core.interfaces.provider import (
        AgentHost,
        BackgroundTask,
        Carried,
        CarriedCall,
        ChildNow,
        Process,
        Provider,
        ProviderCapabilities,
        ProviderServices,
        ProviderSession,
        ProviderSpec,
        ProviderStatus,
        SessionRequest,
    )
    from prsm_core.interfaces.runs import RunOptions, RunResult
    from prsm_core.interfaces.scorer import ModelScorerSpec
    from prsm_core.interfaces.sink import EventSink, EventSinkSpec, RunInfo
    from prsm_core.interfaces.store import (
        AgentRow,
        OpenCall,
        OpenCalls,
        OpenTurn,
        Picture,
        RunRow,
        SessionInfo,
        Store,
        TakenNames,
    )
    from prsm_core.interfaces.tool import PeerMessage, PeerNow, ToolCall, ToolContribution
    from prsm_core.kit.deadlines import deadline
    from prsm_core.kit.hook_gate import HOOK_COMMAND, HookAsker, HookGate
    from prsm_core.kit.programs import runnable
    from prsm_core.kit.quotation import quote_conversation
    from prsm_core.kit.section import (
        Key,
        Parser,
        parse_argv,
        parse_choice,
        parse_environment,
        parse_flag,
        parse_models,
        parse_text,
        parse_url,
        parse_words,
        read_section,
    )
    from prsm_core.kit.section_model import model_of_keys
    from prsm_core.kit.starting import proxy_missing, require_folder
    from prsm_core.kit.version import VersionRange, numbers_of, printed_version, version_in
    from prsm_core.lifecycle.machine import Machine
    from prsm_core.permissions.notes import read_notes
    from prsm_core.version import __version__

__all__ = [  # noqa: RUF022 - in the order of sorted(), as dir() lists them
    "AbortSignal",
    "AgentDescriptor",
    "AgentError",
    "AgentHost",
    "AgentMessage",
    "AgentNow",
    "AgentResult",
    "AgentRole",
    "AgentRow",
    "AgentSpawnError",
    "AgentState",
    "AgentTimeoutError",
    "AgentToolCall",
    "Allow",
    "Answer",
    "AppHandle",
    "Ask",
    "AskedQuestion",
    "AssembledContext",
    "AssistantMessage",
    "BackgroundTask",
    "Box",
    "Budget",
    "BudgetExceededError",
    "BudgetKind",
    "CallState",
    "Carried",
    "CarriedCall",
    "ChildNow",
    "Clock",
    "CompactionResult",
    "ConfigError",
    "ControlError",
    "DeadlockDetectedError",
    "Deny",
    "EDIT_TOOLS",
    "Effect",
    "ErrorKind",
    "Event",
    "EventSink",
    "EventSinkSpec",
    "ExpertNotFoundError",
    "ExpertProfile",
    "FencedError",
    "Frontend",
    "FrontendSpec",
    "Grant",
    "HOOK_COMMAND",
    "HookAsker",
    "HookGate",
    "Hub",
    "HubFrontend",
    "Image",
    "InvalidTransitionError",
    "Key",
    "LineTooLongError",
    "Machine",
    "MaxDepthExceededError",
    "McpEndpoint",
    "McpServer",
    "MessageRoutingError",
    "MessageType",
    "ModelCapability",
    "ModelInfo",
    "ModelNotAvailableError",
    "ModelScorerSpec",
    "ModelTier",
    "NATIVE_TOOLS",
    "Notice",
    "ORCHESTRATION_TOOLS",
    "OpenCall",
    "OpenCalls",
    "OpenTurn",
    "OrchestrationError",
    "Origin",
    "Parser",
    "PeerMessage",
    "PeerNow",
    "PermissionCheckSpec",
    "PermissionContext",
    "PermissionMode",
    "PermissionRequest",
    "Picture",
    "PlanEntry",
    "PlanUpdated",
    "PluginError",
    "Problem",
    "Process",
    "ProcessError",
    "Provenance",
    "Provider",
    "ProviderCapabilities",
    "ProviderEvent",
    "ProviderNotAvailableError",
    "ProviderServices",
    "ProviderSession",
    "ProviderSpec",
    "ProviderStatus",
    "PrsmError",
    "Question",
    "RoutedMessage",
    "RunAbortedError",
    "RunHandle",
    "RunInfo",
    "RunNow",
    "RunOptions",
    "RunResult",
    "RunRow",
    "SessionInfo",
    "SessionOwnedError",
    "SessionRequest",
    "SessionSnapshot",
    "SessionState",
    "SpawnRequest",
    "Spent",
    "StepEnded",
    "StopReason",
    "Store",
    "StoreError",
    "TakenNames",
    "TaskProfile",
    "TextDelta",
    "ThinkingDelta",
    "Timer",
    "TokenBudget",
    "TokenUsage",
    "ToolCall",
    "ToolCallFinished",
    "ToolCallStarted",
    "ToolCallTimeoutError",
    "ToolContribution",
    "ToolInputError",
    "ToolOutcome",
    "ToolOutput",
    "ToolSpec",
    "TurnEnd",
    "TurnEnded",
    "TurnResult",
    "TurnState",
    "UNCHECKED",
    "UsageReported",
    "Verdict",
    "VersionRange",
    "__version__",
    "cut_result",
    "deadline",
    "hookimpl",
    "model_of_keys",
    "numbers_of",
    "parse_argv",
    "parse_choice",
    "parse_environment",
    "parse_flag",
    "parse_models",
    "parse_text",
    "parse_url",
    "parse_words",
    "printed_version",
    "proxy_missing",
    "quote_conversation",
    "read_notes",
    "read_section",
    "require_folder",
    "runnable",
    "version_in",
]

_HOMES = {
    "prsm_core.hookspecs": ("hookimpl",),
    "prsm_core.errors": (
        *("AgentSpawnError", "AgentTimeoutError", "BudgetExceededError", "ConfigError"),
        *("ControlError", "DeadlockDetectedError", "ExpertNotFoundError", "FencedError"),
        *("InvalidTransitionError", "LineTooLongError", "MaxDepthExceededError"),
        *("MessageRoutingError", "ModelNotAvailableError", "OrchestrationError", "PluginError"),
        *("ProcessError", "ProviderNotAvailableError", "PrsmError", "RunAbortedError"),
        *("SessionOwnedError", "StoreError", "ToolCallTimeoutError", "ToolInputError"),
    ),
    "prsm_core.domain.account": ("Problem",),
    "prsm_core.domain.agents": (
        "UNCHECKED",
        "AgentDescriptor",
        "AgentResult",
        "AgentRole",
        "AgentState",
        "ExpertProfile",
        "Grant",
        "PermissionMode",
        "SpawnRequest",
    ),
    "prsm_core.domain.boxes": ("Box",),
    "prsm_core.domain.budgets": ("Budget", "BudgetKind"),
    "prsm_core.domain.events": ("Event",),
    "prsm_core.domain.images": ("Image",),
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
    "prsm_core.domain.sessions": (
        "AgentNow",
        "AskedQuestion",
        "CallState",
        "Origin",
        "RunNow",
        "SessionState",
        "TurnEnd",
        "TurnState",
    ),
    "prsm_core.domain.snapshots": ("SessionSnapshot",),
    "prsm_core.domain.tools": (
        "EDIT_TOOLS",
        "McpEndpoint",
        "McpServer",
        "NATIVE_TOOLS",
        "ORCHESTRATION_TOOLS",
        "ToolOutcome",
        "ToolSpec",
    ),
    "prsm_core.domain.turns": (
        *("AbortSignal", "AgentError", "AgentMessage", "AgentToolCall", "AssembledContext"),
        *("AssistantMessage", "CompactionResult", "Effect", "ErrorKind", "Notice"),
        *("PlanEntry", "PlanUpdated", "ProviderEvent", "StepEnded", "StopReason"),
        *("TextDelta", "ThinkingDelta"),
        *("TokenBudget", "ToolCallFinished", "ToolCallStarted", "ToolOutput", "TurnEnded"),
        *("TurnResult", "UsageReported", "cut_result"),
    ),
    "prsm_core.domain.usage": ("Provenance", "Spent", "TokenUsage"),
    "prsm_core.interfaces.app_handle": ("AppHandle", "RunHandle"),
    "prsm_core.interfaces.clock": ("Clock", "Timer"),
    "prsm_core.interfaces.frontend": ("Frontend", "FrontendSpec"),
    "prsm_core.interfaces.hub": ("Hub", "HubFrontend"),
    "prsm_core.interfaces.permission": ("PermissionCheckSpec",),
    "prsm_core.interfaces.provider": (
        *("AgentHost", "BackgroundTask", "Carried", "CarriedCall", "ChildNow", "Process"),
        *("Provider", "ProviderCapabilities", "ProviderServices", "ProviderSession"),
        *("ProviderSpec", "ProviderStatus", "SessionRequest"),
    ),
    "prsm_core.interfaces.runs": ("RunOptions", "RunResult"),
    "prsm_core.interfaces.scorer": ("ModelScorerSpec",),
    "prsm_core.interfaces.sink": ("EventSink", "EventSinkSpec", "RunInfo"),
    "prsm_core.interfaces.store": (
        *(
            "AgentRow",
            "OpenCall",
            "OpenCalls",
            "OpenTurn",
            "Picture",
            "RunRow",
            "SessionInfo",
            "Store",
            "TakenNames",
        ),
    ),
    "prsm_core.interfaces.tool": ("PeerMessage", "PeerNow", "ToolCall", "ToolContribution"),
    "prsm_core.kit.deadlines": ("deadline",),
    "prsm_core.kit.hook_gate": ("HOOK_COMMAND", "HookAsker", "HookGate"),
    "prsm_core.kit.programs": ("runnable",),
    "prsm_core.kit.quotation": ("quote_conversation",),
    "prsm_core.kit.section": (
        *("Key", "Parser", "parse_argv", "parse_choice", "parse_environment", "parse_flag"),
        *("parse_models", "parse_text", "parse_url", "parse_words", "read_section"),
    ),
    "prsm_core.kit.section_model": ("model_of_keys",),
    "prsm_core.kit.starting": ("proxy_missing", "require_folder"),
    "prsm_core.kit.version": ("VersionRange", "numbers_of", "printed_version", "version_in"),
    "prsm_core.lifecycle.machine": ("Machine",),
    "prsm_core.permissions.notes": ("read_notes",),
    "prsm_core.version": ("__version__",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # else a type checker would believe in every misspelt name

    def __getattr__(name: str) -> object:
        module = _HOME_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
