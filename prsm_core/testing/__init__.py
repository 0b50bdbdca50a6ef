"""For plugin authors: contract classes to subclass, doubles, samples, loopback model servers.

Everything an author needs is importable from here, lazily (PEP 562): `from prsm_core.testing
import ProviderContract` loads what a provider's tests need and nothing else.

contract     a pytest class for each kind of plugin, and for stores; its docstrings are the rules
doubles      what the engine gives a provider, or a tool; `ScriptedApp`, `ScriptedHub` a frontend
samples      events, permission requests, models and tasks of every kind
ModelServer  a model that follows a scenario, at a port of this machine
misbehaving  a team in which one agent's program does; `MisbehaviourContract` plays it
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost more than everything else here

if TYPE_CHECKING:
    from prsm_core.testing.app_contract import AppContract, AppScene
    from prsm_core.testing.app_double import ScriptedApp, settle
    from prsm_core.testing.check_contract import PermissionCheckContract
    from prsm_core.testing.client_contract import ClientFrontendContract
    from prsm_core.testing.doubles import (
        LocalServices,
        RecordedCall,
        RecordingHost,
        answers,
        completes,
        only,
        open_background,
        open_services,
        run_turn,
        session_request,
        tool_spec,
        turn_context,
        until,
    )
    from prsm_core.testing.fake_clock import FakeClock
    from prsm_core.testing.frontend_contract import FrontendContract
    from prsm_core.testing.harmless_contract import HarmlessContract
    from prsm_core.testing.hub_contract import HubFrontendContract
    from prsm_core.testing.hub_double import ScriptedHub
    from prsm_core.testing.hub_rules import HubContract, HubScene
    from prsm_core.testing.memory_store import MemoryStore
    from prsm_core.testing.metering_contract import MeteringContract
    from prsm_core.testing.misbehaving_team import MisbehavingTeam, Outcome
    from prsm_core.testing.misbehaviour import Misbehaviour
    from prsm_core.testing.misbehaviour_contract import MisbehaviourContract, each, fake_command
    from prsm_core.testing.model_server import ModelServer
    from prsm_core.testing.odd_values import with_odd_values
    from prsm_core.testing.program_contract import ProgramHost, ProgramProviderContract
    from prsm_core.testing.provider_contract import ProviderContract
    from prsm_core.testing.provider_scene import (
        Scene,
        ScriptedModel,
        Stage,
        call,
        end,
        error,
        failure,
        reason,
        streaming,
    )
    from prsm_core.testing.resume_contract import ResumeContract
    from prsm_core.testing.rush_clock import RushClock
    from prsm_core.testing.samples import (
        later_events,
        sample_contexts,
        sample_events,
        sample_models,
        sample_requests,
        sample_tasks,
    )
    from prsm_core.testing.scorer_contract import ModelScorerContract
    from prsm_core.testing.scripted_run import ScriptedRun
    from prsm_core.testing.sink_contract import EventSinkContract
    from prsm_core.testing.store_contract import StoreContract
    from prsm_core.testing.terminal import Terminal, open_terminal
    from prsm_core.testing.tool_contract import ToolContract
    from prsm_core.testing.tool_double import RecordingToolCall

__all__ = [
    "AppContract",
    "AppScene",
    "ClientFrontendContract",
    "EventSinkContract",
    "FakeClock",
    "FrontendContract",
    "HarmlessContract",
    "HubContract",
    "HubFrontendContract",
    "HubScene",
    "LocalServices",
    "MemoryStore",
    "MeteringContract",
    "MisbehavingTeam",
    "Misbehaviour",
    "MisbehaviourContract",
    "ModelScorerContract",
    "ModelServer",
    "Outcome",
    "PermissionCheckContract",
    "ProgramHost",
    "ProgramProviderContract",
    "ProviderContract",
    "RecordedCall",
    "RecordingHost",
    "RecordingToolCall",
    "ResumeContract",
    "RushClock",
    "Scene",
    "ScriptedApp",
    "ScriptedHub",
    "ScriptedModel",
    "ScriptedRun",
    "Stage",
    "StoreContract",
    "Terminal",
    "ToolContract",
    "answers",
    "call",
    "completes",
    "each",
    "end",
    "error",
    "failure",
    "fake_command",
    "later_events",
    "only",
    "open_background",
    "open_services",
    "open_terminal",
    "reason",
    "run_turn",
    "sample_contexts",
    "sample_events",
    "sample_models",
    "sample_requests",
    "sample_tasks",
    "session_request",
    "settle",
    "streaming",
    "tool_spec",
    "turn_context",
    "until",
    "with_odd_values",
]

_HOMES = {
    "prsm_core.testing.app_contract": ("AppContract", "AppScene"),
    "prsm_core.testing.app_double": ("ScriptedApp", "settle"),
    "prsm_core.testing.scripted_run": ("ScriptedRun",),
    "prsm_core.testing.check_contract": ("PermissionCheckContract",),
    "prsm_core.testing.client_contract": ("ClientFrontendContract",),
    "prsm_core.testing.doubles": (
        "LocalServices",
        "RecordedCall",
        "RecordingHost",
        "answers",
        "completes",
        "only",
        "open_background",
        "open_services",
        "run_turn",
        "session_request",
        "tool_spec",
        "turn_context",
        "until",
    ),
    "prsm_core.testing.fake_clock": ("FakeClock",),
    "prsm_core.testing.frontend_contract": ("FrontendContract",),
    "prsm_core.testing.harmless_contract": ("HarmlessContract",),
    "prsm_core.testing.hub_contract": ("HubFrontendContract",),
    "prsm_core.testing.hub_double": ("ScriptedHub",),
    "prsm_core.testing.hub_rules": ("HubContract", "HubScene"),
    "prsm_core.testing.memory_store": ("MemoryStore",),
    "prsm_core.testing.metering_contract": ("MeteringContract",),
    "prsm_core.testing.misbehaviour": ("Misbehaviour",),
    "prsm_core.testing.misbehaviour_contract": ("MisbehaviourContract", "each", "fake_command"),
    "prsm_core.testing.model_server": ("ModelServer",),
    "prsm_core.testing.misbehaving_team": ("MisbehavingTeam", "Outcome"),
    "prsm_core.testing.odd_values": ("with_odd_values",),
    "prsm_core.testing.program_contract": ("ProgramHost", "ProgramProviderContract"),
    "prsm_core.testing.provider_contract": ("ProviderContract",),
    "prsm_core.testing.provider_scene": (
        "Scene",
        "ScriptedModel",
        "Stage",
        "call",
        "end",
        "error",
        "failure",
        "reason",
        "streaming",
    ),
    "prsm_core.testing.resume_contract": ("ResumeContract",),
    "prsm_core.testing.rush_clock": ("RushClock",),
    "prsm_core.testing.samples": (
        "later_events",
        "sample_contexts",
        "sample_events",
        "sample_models",
        "sample_requests",
        "sample_tasks",
    ),
    "prsm_core.testing.scorer_contract": ("ModelScorerContract",),
    "prsm_core.testing.sink_contract": ("EventSinkContract",),
    "prsm_core.testing.store_contract": ("StoreContract",),
    "prsm_core.testing.terminal": ("Terminal", "open_terminal"),
    "prsm_core.testing.tool_contract": ("ToolContract",),
    "prsm_core.testing.tool_double": ("RecordingToolCall",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

EXTRA = ("pytest", "pytest_asyncio")  # the modules of the extra `testing`: contracts run on them


if not TYPE_CHECKING:  # else a type checker would believe in every misspelt name

    def __getattr__(name: str) -> object:
        module = _HOME_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(_imported(module, name), name)
        globals()[name] = value
        return value


def _imported(module: str, name: str) -> object:
    """Return the home of a name; raise ImportError that names the extra where that is missing."""
    import importlib

    needed = [*EXTRA, module] if name.endswith("Contract") else [module]
    try:
        return [importlib.import_module(each) for each in needed][-1]
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        package = error.name.replace("_", "-")
        raise ImportError(
            f"prsm_core.testing.{name} needs {package}, which is not installed: "
            "pip install 'prsm-core[testing]'"
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
