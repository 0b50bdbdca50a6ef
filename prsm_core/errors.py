"""Every exception PRSM raises on purpose, in one tree.

PrsmError
├── ConfigError                     configuration or usage; exit code 2
├── PluginError                     a plugin is broken, unknown or a duplicate
├── InvalidTransitionError          a state machine refused (also a ValueError)
├── StoreError                      the ledger refused or cannot be used
│   └── FencedError                 the step belongs to an ended or older incarnation
├── ProcessError                    a child process could not be started or broke the rules
│   └── LineTooLongError            one line of output exceeded the documented limit
├── SessionOwnedError               another process owns the session; exit code 2
├── ControlError                    the owner of a session cannot be reached, or refused
└── OrchestrationError              the engine, the agents and their tools
    ├── AgentSpawnError
    │   └── BudgetExceededError     a budget is used up: nothing more is launched
    ├── AgentTimeoutError
    ├── MessageRoutingError
    ├── DeadlockDetectedError
    ├── RunAbortedError             its abort signal was set before the run began
    ├── MaxDepthExceededError
    ├── ExpertNotFoundError
    ├── ToolCallTimeoutError
    ├── ToolInputError              a tool call that names no tool or fails its schema
    ├── ProviderNotAvailableError
    └── ModelNotAvailableError

`message` says what happened, `hint` what to do about it, `code` is the stable word that tool
answers carry.
"""

from __future__ import annotations


class PrsmError(Exception):
    """Base of all errors of PRSM."""

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


class ConfigError(PrsmError):
    """The configuration or the command line is wrong."""

    code = "config"
    exit_code = 2


class PluginError(PrsmError):
    """A plugin is broken, incompatible, unknown, or registered twice."""

    code = "plugin"
    exit_code = 2


class InvalidTransitionError(PrsmError, ValueError):
    """A state machine has no such transition."""

    code = "invalid_transition"

    def __init__(self, machine: str, source: str, target: str) -> None:
        super().__init__(f"{machine}: no transition from {source} to {target}")
        self.machine = machine
        self.source = source
        self.target = target


class StoreError(PrsmError):
    """The ledger refused an act or cannot be used."""

    code = "store"


class FencedError(StoreError):
    """A step of an ended agent or of an older incarnation was refused."""

    code = "fenced"


class ProcessError(PrsmError):
    """A child process could not be started or broke the rules."""

    code = "process"


class LineTooLongError(ProcessError):
    """A child wrote a line longer than the documented limit."""

    code = "line_too_long"


class SessionOwnedError(PrsmError):
    """Another process owns the session."""

    code = "session_owned"
    exit_code = 2


class ControlError(PrsmError):
    """The owner of a session cannot be reached, or what it was asked is nothing it can do."""

    code = "control"


class OrchestrationError(PrsmError):
    """Base of the errors that agents and their tools can meet."""

    code = "orchestration"


class AgentSpawnError(OrchestrationError):
    """An agent could not be spawned or restarted."""

    code = "spawn_failed"


class BudgetExceededError(AgentSpawnError):
    """A budget has no room for one more agent, or one more turn."""

    code = "budget_exceeded"


class AgentTimeoutError(OrchestrationError):
    """An agent exceeded one of its clocks: its turn ends with this."""

    code = "agent_timeout"


class MessageRoutingError(OrchestrationError):
    """A message has no valid recipient or no room in its mailbox."""

    code = "routing"


class DeadlockDetectedError(OrchestrationError):
    """The agent was chosen to end a deadlock."""

    code = "deadlock"


class RunAbortedError(OrchestrationError):
    """Whoever started the run has aborted it before it began: nothing was written."""

    code = "aborted"
    exit_code = 130


class MaxDepthExceededError(OrchestrationError):
    """The tree may not grow deeper."""

    code = "max_depth"


class ExpertNotFoundError(OrchestrationError):
    """No expert has this name."""

    code = "expert_not_found"


class ToolCallTimeoutError(OrchestrationError):
    """A single tool call exceeded its wall clock."""

    code = "tool_timeout"


class ToolInputError(OrchestrationError):
    """A tool call names no tool this agent has, or its arguments fail the schema."""

    code = "invalid_arguments"


class ProviderNotAvailableError(OrchestrationError):
    """The provider is missing, too old, or not usable as configured."""

    code = "provider_not_available"
    exit_code = 3


class ModelNotAvailableError(OrchestrationError):
    """The provider does not offer the model."""

    code = "model_not_available"
    exit_code = 3
