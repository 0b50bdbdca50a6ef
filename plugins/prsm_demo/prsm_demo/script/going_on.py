"""What a session is told of a turn that goes on, compared with what its thread holds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from prsm_demo.script.place import Outcome, given
from prsm_demo.script.playback import Reply

if TYPE_CHECKING:
    from prsm_core import Carried, CarriedCall
    from prsm_demo.script.place import KeptResponse
    from prsm_demo.script.playback import Player
    from prsm_demo.script.steps import Call

_UNSEEN = "it was cut off and may have run: look before it is made again"


class GoingOn:
    """A turn that goes on."""

    def __init__(self, carried: Carried) -> None:
        self._calls = {call.call_id: call for call in carried.calls}
        self.ids = frozenset((*carried.prompts, *self._calls))
        heard = {call.call_id for call in carried.calls if call.heard}
        self._unheard = self.ids - heard - carried.heard

    def knows(self, response: KeptResponse) -> bool:
        """Whether the ledger has heard of a response: by a call, or since what it answers is old.

        In doubt it has not: what is said twice does no harm, and what is never said does.
        """
        if any(call_id in self._calls for call_id, _ in response.calls):
            return True
        return bool(response.answers) and self._unheard.isdisjoint(response.answers)

    def answer(self, call_id: str) -> Outcome | None:
        """Return what became of a call; None where the ledger never saw it."""
        call = self._calls.get(call_id)
        if call is None:
            return None
        return _own_answer(call) if call.orchestration else _vendors_answer(call)


def _own_answer(call: CarriedCall) -> Outcome | None:
    outcome = call.outcome
    if outcome is None:
        return None  # it is made again, and the engine knows what it has done
    return given(outcome)


def _vendors_answer(call: CarriedCall) -> Outcome:
    """Return how a command ended; whatever of it was seen is in the thread before the ledger."""
    status = "failed" if call.outcome is None or call.outcome.is_error else "completed"
    reason = _UNSEEN if call.outcome is None else call.outcome.text
    said = {"status": status, "reason": reason}
    return Outcome(text=json.dumps(said), status=status, reason=reason)


def reply_of(response: KeptResponse, player: Player) -> Reply | None:
    """Return a response as it was given; None where the scenario is another one by now."""
    step = player.step_at(response.lane, response.step)
    if step is None or len(step.calls) != len(response.calls):
        return None
    calls = tuple(
        replace(call, arguments=arguments)
        for call, (_, arguments) in zip(step.calls, response.calls, strict=True)
    )
    return Reply(
        step=replace(step, calls=calls, say=response.say),
        number=response.number,
        lane=response.lane,
        place=response.step,
        call_ids=tuple(call_id for call_id, _ in response.calls),
    )


def unanswered(reply: Reply, response: KeptResponse) -> tuple[tuple[str, Call], ...]:
    """Return those calls of a response that have no answer yet, by their ids."""
    made = zip(reply.call_ids, reply.step.calls, strict=True)
    return tuple((call_id, call) for call_id, call in made if call_id not in response.outcomes)
