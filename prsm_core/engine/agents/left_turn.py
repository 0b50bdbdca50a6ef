"""A turn that has no session yet, and goes on in the next one that is opened."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from prsm_core.engine.agents.opening import Opening
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.context import Prompt
    from prsm_core.engine.turns.run import TurnRun
    from prsm_core.interfaces.provider import Carried, ProviderSession


class LeftTurn(Struct, eq=False):
    """Keeps the turn of one life that an earlier session has left open, until one attaches.

    Attributes:
        turn: What the next session goes on with; None: with no turn.
    """

    _record: AgentRecord
    _opening: Opening
    turn: TurnRun | None = None

    async def carried(self) -> Carried | None:
        """Return what the vendor's thread may lack of it, if it has a thread."""
        turn, record = self.turn, self._record
        if turn is None or turn.going_on is None:
            return None
        if not await self._opening.keeps_thread(record):
            record.resume_token = None
        images = partial(turn.calls.parts.images, record)
        return None if record.resume_token is None else turn.going_on.carried(images)

    def untold(self, prompt: Prompt, carried: Carried | None, session: ProviderSession) -> Prompt:
        """Return the prompt with what the thread of the session does not hold of it."""
        turn = self.turn
        if turn is None or turn.going_on is None:
            return prompt
        turn.going_on.store(carried, session.taken)
        if carried is None:
            return prompt
        return replace(prompt, text=turn.going_on.untold(carried, session.taken), again=True)

    def attach(self, session: ProviderSession, prompt: Prompt) -> TurnRun | None:
        """Return it to be run by this session, once."""
        turn, self.turn = self.turn, None
        if turn is not None:
            turn.attach(session, prompt)
        return turn
