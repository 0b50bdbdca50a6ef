"""A turn that has no session yet, and goes on in the next one that is opened."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from prsm_core.engine.agents.opening import Opening
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.context import Prompt
    from prsm_core.engine.turns.run import TurnRun
    from prsm_core.interfaces.provider import Carried, ProviderSession


async def carried_of(turn: TurnRun | None, record: AgentRecord, opening: Opening) -> Carried | None:
    """Return what the vendor's thread may lack of a turn, if its agent has a thread."""
    if turn is None or turn.going_on is None:
        return None
    if not await opening.keeps_thread(record):
        record.resume_token = None
    images = partial(turn.calls.parts.images, record)
    return None if record.resume_token is None else turn.going_on.carried(images)


def with_untold(
    prompt: Prompt, turn: TurnRun | None, carried: Carried | None, session: ProviderSession
) -> Prompt:
    """Return the prompt with what the thread of the session does not hold of a turn."""
    if turn is None or turn.going_on is None:
        return prompt
    turn.going_on.store(carried, session.taken)
    if carried is None:
        return prompt
    return replace(prompt, text=turn.going_on.untold(carried, session.taken), again=True)
