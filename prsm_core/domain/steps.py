"""Steps: the seven durable acts. What is not committed by one of them did not happen.

A step is one transaction: its rows, messages, state changes and events land together or not at
all. Its `step_id` (`agent:incarnation:n`) is unique; committing it again changes nothing and
returns the first result. A step of an older incarnation is refused (FencedError).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.agents import AgentDescriptor, AgentResult, AgentState
    from prsm_core.domain.events import Event
    from prsm_core.domain.messages import RoutedMessage
    from prsm_core.domain.turns import AgentToolCall, TurnResult


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """A validated transition of the step's agent; refused if the stored state is not `source`."""

    source: AgentState
    target: AgentState
    reason: str = ""
    waiting_on: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanRequest:
    """An open permission request or question; `kind` is permission or question."""

    request_id: str
    agent_id: str
    kind: str
    payload: Mapping[str, Any]
    opened_at: float  # Unix seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The end of a human request; the first one wins."""

    request_id: str
    answer: Mapping[str, Any]
    by: str  # user | policy | timeout | agent_ended | headless | on_ask


@dataclass(frozen=True, slots=True, kw_only=True)
class CallClose:
    """The stored answer of an orchestration call, written before it is sent."""

    turn_id: str
    call_id: str
    status: str  # completed | failed
    result: str
    consumed: tuple[str, ...] = ()  # ids of the messages this answer used
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What every step carries."""

    step_id: str
    session_id: str
    run_id: str
    agent_id: str | None  # None: an act of the run itself
    incarnation: int = 1
    events: tuple[Event, ...] = ()
    changes: tuple[StateChange, ...] = ()  # applied in order to agent_id
    messages: tuple[RoutedMessage, ...] = ()  # sent by this step


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnStep(Step):
    """An agent row (PENDING) and its ledger session `<session>/<alias>`."""

    agent: AgentDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOpenStep(Step):
    """A turn row `running`; the messages used as its prompt are consumed."""

    turn_id: str
    number: int  # 1, 2 … per agent, over all incarnations
    parent_turn_id: str | None
    session_label: str
    model: str
    provider: str
    role: str  # manager | worker
    toolset_name: str
    tools_available: tuple[str, ...]
    permissions_granted: tuple[str, ...]
    workspace_path: str
    started_at_ms: int
    source_event_id: str | None = None
    consumed: tuple[str, ...] = ()
    turn_type: str = "normal"  # normal | compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOpenStep(Step):
    """The row of an orchestration call, with the messages it sends."""

    turn_id: str
    call: AgentToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCloseStep(Step):
    """An orchestration call's answer, before the provider gets it."""

    close: CallClose


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCloseStep(Step):
    """The closing transaction of a turn: the specification's eight ordered writes.

    It may follow the agent's end in the same incarnation, since usage comes last.
    """

    turn_id: str
    parent_turn_id: str | None
    session_label: str
    result: TurnResult
    completed_at_ms: int
    resume_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEndStep(Step):
    """The agent's one result: terminal state, TASK_RESULT to its parent, open requests closed."""

    result: AgentResult
    close: CallClose | None = None  # the task_complete call that caused it
    resolutions: tuple[Resolution, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlStep(Step):
    """Everything else, named by `act`.

    run_started, run_finished, state, restart, request, resolve, finishing, grant, prompt, model …

    `restart` increments the agent's incarnation: the step carries the NEW incarnation and its
    change leaves a terminal state; `prompt` is the new prompt and `agent.result` is cleared.
    """

    act: str
    prompt: str | None = None
    requests: tuple[HumanRequest, ...] = ()
    resolutions: tuple[Resolution, ...] = ()
    result: AgentResult | None = None  # finishing: stored until the last child has ended
    consumed: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What a commit did: the events with their numbers, or the first result of a known step."""

    step_id: str
    events: tuple[Event, ...] = ()
    duplicate: bool = False
