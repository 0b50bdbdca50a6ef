"""Between two turns: an agent waits for a message, or for the end of its last child.

Its session stays open meanwhile, unless others need the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.domain.agents import AgentState
from prsm_core.domain.record import Record
from prsm_core.engine.turns.context import Prompt
from prsm_core.engine.turns.waits import WaitOf

if TYPE_CHECKING:
    from prsm_core.engine.agents.inbox import Inbox
    from prsm_core.engine.agents.life import AgentLife
    from prsm_core.engine.ports import Wait
    from prsm_core.engine.state import AgentRecord

_CHILDREN_ENDED = "All your children have ended. Finish with task_complete."


class BetweenTurns(Record, frozen=True, eq=False):
    """Waits for one life while it has no turn; made whenever that is."""

    _life: AgentLife
    _inbox: Inbox

    def leave(self) -> None:
        """Let no wait go on within this session."""
        self._life.is_leaving = True
        self._inbox.wake(self._life.record)

    async def prompt(self) -> Prompt | None:
        """Wait for a message or the last child's end, without a slot.

        None: the session is to be left, and there is no prompt yet.
        """
        record, inbox, prompt = self._life.record, self._inbox, None
        self._life.blocked([inbox.wait(record)])
        try:
            while prompt is None:
                prompt = inbox.take_reminder(record) or inbox.take_unread(record)
                if prompt is None and not record.live_children:
                    prompt = Prompt(text=_CHILDREN_ENDED)
                if prompt is None:
                    if self._life.is_leaving:
                        return None
                    await inbox.changed(record)
        finally:
            self._life.moved()
        await self._life.take_slot()
        return prompt

    async def outlive_children(self) -> bool:
        """Wait, without a slot, until the last child has ended.

        Returns whether it has: else the session is to be left, or the engine closes.
        """
        record = self._life.record
        if record.live_children:
            self._life.blocked([_end_of(child) for child in record.live_children.values()])
            # Whose engine closed before it came here would hear of no end any more.
            while record.live_children and not (self._life.is_leaving or self._life.is_left_behind):
                await self._inbox.changed(record)
        self._life.moved()
        return not record.live_children


def _end_of(child: AgentRecord) -> Wait:
    """Return the wait for the end of a child."""
    return WaitOf(
        state=AgentState.WAITING_FOR_CHILD,
        on="finishing",
        targets=lambda: (child.agent_id,),
        ready=lambda: child.has_ended,
    )
