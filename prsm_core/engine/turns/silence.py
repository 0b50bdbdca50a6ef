"""Says when a provider does not answer, and how long it is waited for.

A vendor's program whose server takes no packets, or takes them and says nothing, is as silent as
one that thinks, and may itself say nothing of it for minutes. So the engine tells it: soon where a
turn has had no answer at all, later where the model has spoken and then falls silent.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prsm_core.domain.turns import Notice

if TYPE_CHECKING:
    from prsm_core.domain.agents import AgentDescriptor
    from prsm_core.domain.turns import ProviderEvent
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.turns.clock import TurnClock
    from prsm_core.engine.turns.fold import TurnFold
    from prsm_core.interfaces.clock import Clock

FIRST_ANSWER_SECONDS = 10.0  # of a turn
LATER_SECONDS = 30.0
NEVER = -math.inf


class Silence:
    """Owns since when one turn waits for its provider, and whether that was told.

    Each silence is told once. Nobody is silent while a tool runs or a person is asked, nor who may
    be silent without end: a client outside.
    """

    __slots__ = (
        "_agent",
        "_asked",
        "_begun",
        "_clock",
        "_fold",
        "_has_spoken",
        "_journal",
        "_told",
        "_turn",
    )

    def __init__(
        self,
        clock: Clock,
        turn: TurnClock,
        fold: TurnFold,
        journal: Journal,
        agent: AgentDescriptor,
    ) -> None:
        """Begin with the turn.

        Args:
            clock: Tells the time.
            turn: Knows when the provider was heard last, and whether a tool runs.
            fold: Knows how many calls, the vendor's and ours, the turn has begun.
            journal: Tells of a silence, as a warning of the agent.
            agent: Whose turn it is.
        """
        self._clock = clock
        self._turn = turn
        self._fold = fold
        self._journal = journal
        self._agent = agent
        self._has_spoken = False
        self._begun = self._asked = clock.now()
        self._told = NEVER  # the beginning of the last silence that was told

    def heard(self, event: ProviderEvent) -> None:
        """Heed an event: a notice is no answer, but one that warns has just said how it stands."""
        if not isinstance(event, Notice):
            self._has_spoken = True
        elif event.level != "info":
            self._asked = self._clock.now()

    def remaining(self, left: float) -> float:
        """Return the seconds until the present silence is to be told, in a turn that has so many.

        One without end is nobody's to tell of.
        """
        since = self._since()
        if self._turn.open_tools or since == self._told or left == math.inf:
            return math.inf
        bound = LATER_SECONDS if self._is_answered else FIRST_ANSWER_SECONDS
        return since + bound - self._clock.now()

    def look(self) -> None:
        """Tell of a silence that lasts too long."""
        if self.remaining(self._turn.remaining()) > 0:
            return
        self._told = self._since()
        now = self._clock.now()
        what = (
            f"has said nothing for {now - self._told:.0f} s"
            if self._is_answered
            else f"has not answered yet, after {now - self._begun:.0f} s"
        )
        self._tell(f"{what}; it is waited for {self._turn.remaining():.0f} s more at most")

    def _tell(self, what: str) -> None:
        agent = self._agent
        text = f"{agent.provider}/{agent.model} {what}"
        self._journal.note("notice", agent.agent_id, level="warning", text=text)

    @property
    def _is_answered(self) -> bool:
        return self._has_spoken or self._fold.calls_begun > 0

    def _since(self) -> float:
        return self._turn.last_event if self._is_answered else self._asked
