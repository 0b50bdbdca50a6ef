"""For plugin authors: contract classes to subclass, doubles, samples, loopback model servers.

Everything an author needs is importable from here, lazily (PEP 562): `from prsm_testing
import ProviderContract` loads what a provider's tests need and nothing else.

contract     a pytest class for each kind of plugin, and for stores; its docstrings are the rules
doubles      what the engine gives a provider, or a tool; `ScriptedApp`, `ScriptedHub` a frontend
samples      events, permission requests, models and tasks of every kind
ModelServer  a model that follows a scenario, at a port of this machine
misbehaving  a team in which one agent's program does; `MisbehaviourContract` plays it
sim          whole runs of the real engine, from a seed
"""

from __future__ import annotations

from prsm_core import attach

_HOMES = {
    "app_contract": "AppContract AppScene",
    "app_double": "ScriptedApp ScriptedRun settle",
    "check_contract": "PermissionCheckContract",
    "client_contract": "ClientFrontendContract",
    "doubles": (
        "LocalServices RecordedCall RecordingHost answers completes only open_background "
        "open_services run_turn session_request tool_spec turn_context until"
    ),
    "executor_contract": "ExecutorContract",
    "fake_clock": "FakeClock",
    "files_contract": "WorkspaceFilesContract",
    "frontend_contract": "FrontendContract",
    "hub_contract": "HubFrontendContract",
    "hub_double": "ScriptedHub",
    "hub_rules": "HubContract HubScene",
    "memory_store": "MemoryStore",
    "misbehaving_team": "MisbehavingTeam Outcome RushClock",
    "misbehaviour_contract": "Misbehaviour MisbehaviourContract each fake_command",
    "model_server": "ModelServer",
    "program_contract": "ProgramHost ProgramProviderContract",
    "provider_contract": "HarmlessContract MeteringContract ProviderContract",
    "provider_scene": "Scene ScriptedModel Stage call end error failure reason streaming",
    "resume_contract": "ResumeContract",
    "samples": (
        "later_events sample_contexts sample_events sample_models sample_requests sample_tasks "
        "with_odd_values"
    ),
    "policy_contract": "CommandPolicyContract",
    "scorer_contract": "ModelScorerContract",
    "sink_contract": "EventSinkContract",
    "store_contract": "StoreContract",
    "terminal": "Terminal open_terminal",
    "tool_contract": "RecordingToolCall ToolContract",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
