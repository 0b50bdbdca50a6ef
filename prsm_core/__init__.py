"""PRSM runs a tree of coding agents as one system.

This module is the public surface: everything a plugin needs is importable from here, lazily
(PEP 562), so that `import prsm_core` costs nothing.

cli         the `prsm` command                app          puts it together
builtin     json, JSONL sink                  commands     what packages make commands with
engine      agents, turns, tools, processes   store        the SQLite ledger
messaging   mailboxes and waits               permissions  who may do what
catalog     models, and which fits            workspace    the user's files
lifecycle   state machines                    plugins      discovery and quarantine
config      settings from files and flags     hookspecs    the contract with plugins
kit         what providers are made with      interfaces   what others implement
domain      immutable values                  distributions  packages that are installed
loop        the event loop of commands        policies     what a command policy is
executors   what shuts in what agents run
errors      the exception tree                hub          many sessions in one process
version     of this core                      files        what keeps files is made with
terminal    what frontends on one share       door         what frontends are answered
"""

from __future__ import annotations

import sys

# Importing typing would cost more than everything else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HOMES = {
    "domain.agents": "AgentResult AgentRole AgentState PermissionMode",
    "domain.boxes": "Box",
    "domain.events": "Event",
    "domain.images": "Image",
    "domain.models": "ModelCapability ModelInfo ModelTier TaskProfile",
    "domain.permissions": (
        "Allow Answer Ask Deny PermissionContext PermissionRequest Question Verdict"
    ),
    "domain.tools": (
        "EDIT_TOOLS McpEndpoint McpServer NATIVE_TOOLS ORCHESTRATION_TOOLS ToolOutcome ToolSpec"
    ),
    "domain.turns": (
        "AgentError AgentMessage AssembledContext AssistantMessage ErrorKind Notice PlanEntry "
        "PlanUpdated ProviderEvent StepEnded StopReason TextDelta ThinkingDelta "
        "ToolCallFinished ToolCallStarted ToolOutput TurnEnded UsageReported cut_result"
    ),
    "domain.usage": "Provenance Spent TokenUsage",
    "errors": (
        "ConfigError ControlError InvalidTransitionError LineTooLongError MessageRoutingError "
        "ModelNotAvailableError OrchestrationError PluginError ProcessError "
        "ProviderNotAvailableError PrsmError RunAbortedError SessionOwnedError StoreError "
        "ToolInputError"
    ),
    "hookspecs": "hookimpl",
    "interfaces.app_handle": "AppHandle RunHandle",
    "interfaces.clock": "Clock Timer",
    "interfaces.frontend": "Frontend FrontendSpec",
    "interfaces.hub": "Hub HubFrontend",
    "interfaces.permission": "PermissionCheckSpec",
    "interfaces.provider": (
        "AgentHost BackgroundTask Carried CarriedCall ChildNow Process Provider "
        "ProviderCapabilities ProviderServices ProviderSession ProviderSpec ProviderStatus "
        "SessionRequest"
    ),
    "interfaces.runs": "RunOptions RunResult",
    "interfaces.scorer": "ModelScorerSpec",
    "interfaces.sink": "EventSink EventSinkSpec RunInfo",
    "interfaces.store": "Store",
    "interfaces.tool": "PeerMessage PeerNow ToolCall ToolContribution",
    "lifecycle": "Machine",
    "permissions.paths": "why_not_read",
    "version": "__version__",
}


def attach(
    package: str, homes: dict[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package that imports its names lazily.

    Type checkers read the package's `__init__.pyi`, which is generated from `homes`.

    Args:
        package: Its `__name__`.
        homes: Names, separated by spaces, by the module inside the package that defines them, or
            by the full name of one in another room.
    """
    modules = {
        name: home if home.startswith("prsm_core.") else f"{package}.{home}"
        for home, names in homes.items()
        for name in names.split()
    }
    public = sorted(modules)

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module(modules[name]), name)
        # The next access finds the name without this function.
        vars(sys.modules[package])[name] = value
        return value

    return get, lambda: public, public


__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
