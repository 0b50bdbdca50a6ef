"""The life of an agent, as a table.

PENDING → STARTING → RUNNING → COMPLETED | FAILED | KILLED, with RUNNING ⇄ WAITING_FOR_*.
An ended agent lives again only by the `restart` trigger, which comes with a new incarnation:
COMPLETED and FAILED → STARTING, KILLED → PENDING. One that was cut off with its engine has a new
incarnation as well, in the state that it had: nothing has happened to it.
"""

from __future__ import annotations

from prsm_core.domain.agents import AgentState
from prsm_core.errors import InvalidTransitionError
from prsm_core.lifecycle.machine import Machine

RESTART = "restart"

_WAITING = frozenset(
    {
        AgentState.WAITING_FOR_PARENT,
        AgentState.WAITING_FOR_CHILD,
        AgentState.WAITING_FOR_EXPERT,
    }
)
_FAILURE = frozenset({AgentState.FAILED, AgentState.KILLED})

AGENT_MACHINE: Machine[AgentState] = Machine(
    "agent",
    {
        AgentState.PENDING: {AgentState.STARTING} | _FAILURE,
        AgentState.STARTING: {AgentState.RUNNING} | _FAILURE,
        AgentState.RUNNING: _WAITING | {AgentState.COMPLETED} | _FAILURE,
        **{state: {AgentState.RUNNING} | _FAILURE for state in _WAITING},
    },
    triggers={
        RESTART: {
            (AgentState.COMPLETED, AgentState.STARTING),
            (AgentState.FAILED, AgentState.STARTING),
            (AgentState.KILLED, AgentState.PENDING),
        },
    },
)


def validate_transition(
    source: AgentState, target: AgentState, *, trigger: str | None = None
) -> None:
    """Raise InvalidTransitionError (a ValueError) unless the agent may go there."""
    AGENT_MACHINE.validate(source, target, trigger=trigger)


def path_to(source: AgentState, target: AgentState) -> tuple[AgentState, ...]:
    """Return the states to pass, `target` last, so that every single transition is legal.

    A waiting agent completes, or waits for another, by way of RUNNING. Raises
    InvalidTransitionError where no such path exists.
    """
    if target in AGENT_MACHINE.targets(source):
        return (target,)
    if source in _WAITING and target in AGENT_MACHINE.targets(AgentState.RUNNING):
        return (AgentState.RUNNING, target)
    raise InvalidTransitionError(AGENT_MACHINE.name, source.value, target.value)
