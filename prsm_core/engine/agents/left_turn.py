"""A turn that has no session yet, and goes on in the next one that is opened."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.writes import ReceivesUndone

if TYPE_CHECKING:
    from prsm_core.engine.agents.session_parts import SessionParts
    from prsm_core.engine.state import AgentRecord
    from prsm_core.engine.turns.context import Prompt
    from prsm_core.engine.turns.run import TurnRun
    from prsm_core.interfaces.provider import Carried, ProviderSession


async def carried_of(
    turn: TurnRun | None, record: AgentRecord, parts: SessionParts
) -> Carried | None:
    """Return what the vendor's thread may lack of a turn, if its agent has a thread.

    Where it has none, what the turn has received is undone.
    """
    if turn is None or turn.going_on is None:
        return None
    if not await parts.opening.keeps_thread(record):
        record.resume_token = None
    if record.resume_token is None:
        if not turn.going_on.is_parked:
            await undo_receives(turn, record, parts)
        return None
    images = partial(turn.calls.parts.images, record)
    return turn.going_on.carried(images)


async def undo_receives(turn: TurnRun, record: AgentRecord, parts: SessionParts) -> None:
    """Make unread again what the turn's calls have received, and no model has acted on.

    Their answers were given to a session that is lost, or to none. In the next one they would be
    lines of its history, and whoever waits for an answer to one would wait in vain. A turn that was
    parked keeps them: no engine has died, and a knot still has its reminder.
    """
    going_on = turn.going_on
    lost = {} if going_on is None else going_on.lost_receives(turn.calls.settled)
    if going_on is None or not lost:
        return
    for answer in lost.values():
        parts.inbox.forget(record, answer.data)
    received = {call: answer.messages for call, answer in lost.items()}
    await parts.steps.write(record, ReceivesUndone(turn_id=turn.turn_id, received=received))
    going_on.undo(received)
    parts.inbox.restore(record, await parts.contexts.unread(record))


def with_untold(
    prompt: Prompt, turn: TurnRun | None, carried: Carried | None, session: ProviderSession
) -> Prompt:
    """Return the prompt with what the thread of the session does not hold of a turn."""
    if turn is None or turn.going_on is None:
        return prompt
    turn.going_on.store(carried, session.taken)
    if carried is None:
        return replace(prompt, text=turn.going_on.retold(), again=True)
    return replace(prompt, text=turn.going_on.untold(carried, session.taken), again=True)
