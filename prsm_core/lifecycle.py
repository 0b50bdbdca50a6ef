"""State machines: one generic machine, and the life of an agent as its table.

PENDING → STARTING → RUNNING → COMPLETED | FAILED | KILLED, with RUNNING ⇄ WAITING_FOR_*.
An ended agent lives again only by the `restart` trigger, in a new incarnation: COMPLETED and
FAILED → STARTING, KILLED → PENDING. One that was cut off with its engine gets a new incarnation
in the state it had.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from prsm_core.domain.agents import AgentState
from prsm_core.errors import InvalidTransitionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

S = TypeVar("S", bound=Enum | str)


class Machine(Generic[S]):
    """The legal transitions between states, which are members of an Enum or texts.

    `name` is for errors; `table` has the states that may follow each. Transitions of a named
    `trigger` (a restart, say) are illegal without it, so that nothing leaves a terminal state by
    accident.
    """

    def __init__(
        self,
        name: str,
        table: Mapping[S, Iterable[S]],
        *,
        triggers: Mapping[str, Iterable[tuple[S, S]]] | None = None,
    ) -> None:
        self.name = name
        self._table = {source: frozenset(targets) for source, targets in table.items()}
        self._triggers = {trigger: frozenset(pairs) for trigger, pairs in (triggers or {}).items()}

    def targets(self, source: S, *, trigger: str | None = None) -> frozenset[S]:
        """Return the states that may follow `source`."""
        if trigger is None:
            return self._table.get(source, frozenset())
        pairs = self._triggers.get(trigger, frozenset())
        return frozenset(target for origin, target in pairs if origin == source)

    def validate(self, source: S, target: S, *, trigger: str | None = None) -> None:
        """Raise InvalidTransitionError unless `source` may become `target`."""
        if target not in self.targets(source, trigger=trigger):
            raise InvalidTransitionError(self.name, _word(source), _word(target))


def _word(state: Enum | str) -> str:
    return str(state.value if isinstance(state, Enum) else state)


RESTART = "restart"

WAITING = frozenset(
    {AgentState.WAITING_FOR_PARENT, AgentState.WAITING_FOR_CHILD, AgentState.WAITING_FOR_EXPERT}
)
_FAILURE = frozenset({AgentState.FAILED, AgentState.KILLED})

AGENT_MACHINE: Machine[AgentState] = Machine(
    "agent",
    {
        AgentState.PENDING: {AgentState.STARTING} | _FAILURE,
        AgentState.STARTING: {AgentState.RUNNING} | _FAILURE,
        AgentState.RUNNING: WAITING | {AgentState.COMPLETED} | _FAILURE,
        **{state: {AgentState.RUNNING} | _FAILURE for state in WAITING},
    },
    triggers={
        RESTART: {
            (AgentState.COMPLETED, AgentState.STARTING),
            (AgentState.FAILED, AgentState.STARTING),
            (AgentState.KILLED, AgentState.PENDING),
        }
    },
)


def path_to(source: AgentState, target: AgentState) -> tuple[AgentState, ...]:
    """Return the states to pass, `target` last, so that every single transition is legal.

    A waiting agent passes through RUNNING. Raises InvalidTransitionError if there is no path.
    """
    if target in AGENT_MACHINE.targets(source):
        return (target,)
    if source in WAITING and target in AGENT_MACHINE.targets(AgentState.RUNNING):
        return (AgentState.RUNNING, target)
    raise InvalidTransitionError(AGENT_MACHINE.name, source.value, target.value)
