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
    """Base of all errors of PRSM. A subclass names its `code` and `exit_code`, or inherits them."""

    code = "error"
    exit_code = 1

    def __init_subclass__(cls, *, code: str = "", exit_code: int = 0) -> None:
        super().__init_subclass__()
        cls.code = code or cls.code
        cls.exit_code = exit_code or cls.exit_code

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


class ConfigError(PrsmError, code="config", exit_code=2):
    """The configuration or the command line is wrong."""


class PluginError(PrsmError, code="plugin", exit_code=2):
    """A plugin is broken, incompatible, unknown, or registered twice."""


class InvalidTransitionError(PrsmError, ValueError, code="invalid_transition"):
    """A state machine has no such transition."""

    def __init__(self, machine: str, source: str, target: str) -> None:
        super().__init__(f"{machine}: no transition from {source} to {target}")
        self.machine = machine
        self.source = source
        self.target = target


class StoreError(PrsmError, code="store"):
    """The ledger refused an act or cannot be used."""


class FencedError(StoreError, code="fenced"):
    """A step of an ended agent or of an older incarnation was refused."""


class ProcessError(PrsmError, code="process"):
    """A child process could not be started or broke the rules."""


class LineTooLongError(ProcessError, code="line_too_long"):
    """A child wrote a line longer than the documented limit."""


class SessionOwnedError(PrsmError, code="session_owned", exit_code=2):
    """Another process owns the session."""


class ControlError(PrsmError, code="control"):
    """The owner of a session cannot be reached, or what it was asked is nothing it can do."""


class OrchestrationError(PrsmError, code="orchestration"):
    """Base of the errors that agents and their tools can meet."""


class AgentSpawnError(OrchestrationError, code="spawn_failed"):
    """An agent could not be spawned or restarted."""


class BudgetExceededError(AgentSpawnError, code="budget_exceeded"):
    """A budget has no room for one more agent, or one more turn."""


class AgentTimeoutError(OrchestrationError, code="agent_timeout"):
    """An agent exceeded one of its clocks: its turn ends with this."""


class MessageRoutingError(OrchestrationError, code="routing"):
    """A message has no valid recipient or no room in its mailbox."""


class DeadlockDetectedError(OrchestrationError, code="deadlock"):
    """The agent was chosen to end a deadlock."""


class RunAbortedError(OrchestrationError, code="aborted", exit_code=130):
    """Whoever started the run has aborted it before it began: nothing was written."""


class MaxDepthExceededError(OrchestrationError, code="max_depth"):
    """The tree may not grow deeper."""


class ExpertNotFoundError(OrchestrationError, code="expert_not_found"):
    """No expert has this name."""


class ToolCallTimeoutError(OrchestrationError, code="tool_timeout"):
    """A single tool call exceeded its wall clock."""


class ToolInputError(OrchestrationError, code="invalid_arguments"):
    """A tool call names no tool this agent has, or its arguments fail the schema."""


class ProviderNotAvailableError(OrchestrationError, code="provider_not_available", exit_code=3):
    """The provider is missing, too old, or not usable as configured."""


class ModelNotAvailableError(OrchestrationError, code="model_not_available", exit_code=3):
    """The provider does not offer the model."""
