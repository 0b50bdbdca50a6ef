"""Continue a turn that an earlier engine left open.

A crash leaves three questions. Which calls had an effect? The step that had it notes it, so the
handler runs again and finds it. Which answers and prompts did the model get? Its next words show
that it has them; what came after its last words may be lost. What does the vendor's thread hold? A
vendor writes it a little late, so a kill loses its end. What may be lost is carried to the
provider, which knows its thread; the rest is told to the model by a prompt.

A turn may be continued many times. Next time only that prompt and what follows it may be lost
(`WentOn`), so nothing is told twice.

If the model repeats a call with an effect, not knowing its answer, it gets the stored answer, once.
A receive has no effect: its old answer would keep a new message back.

Without the vendor's thread, the next session gets the conversation as history and acts only on what
it hears. So receives that the model had not acted on are undone (`lost_receives`), which makes
their messages unread again, and its prompts are told again (`retold`).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prsm_core.domain.record import Record
from prsm_core.domain.tools import ToolOutcome
from prsm_core.domain.turns import AgentError, AgentMessage, ErrorKind, StopReason, TurnResult
from prsm_core.domain.usage import Spent, TokenUsage
from prsm_core.engine.turns.context import render_untold
from prsm_core.interfaces.provider import Carried, CarriedCall, ProviderSession
from prsm_core.store.codec import encode_canonical

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

    from prsm_core.domain.images import Image
    from prsm_core.domain.notes import WentOn
    from prsm_core.domain.sessions import CallState, TurnEnd, TurnState
    from prsm_core.domain.turns import AgentToolCall, AssembledContext, ProviderEvent
    from prsm_core.engine.turns.call import Call
    from prsm_core.engine.turns.fold import TurnFold


NONE: frozenset[str] = frozenset()
LAG = 16  # responses that a vendor may go on before it has written the first of them down
_HOLD_MESSAGES = frozenset({"ask_parent", "wait_for_message"})  # in their answers
CUT_OFF = "cut off with its engine: it may have run"
WITHHELD = "cut off with its engine while a person was asked whether it may run: it did not"


class ReceivedAnswer(Record, frozen=True):
    """The answer of a receive: the messages it consumed, and its data."""

    messages: tuple[str, ...]
    data: Mapping[str, Any]


class NoSession(ProviderSession):
    """Stands in for the provider's session while a continued turn settles its calls."""

    def __init__(self, resume_token: str | None) -> None:
        self.resume_token = resume_token

    def run_turn(self, context: AssembledContext) -> AsyncIterator[ProviderEvent]:
        """Raise RuntimeError: without a session nothing streams."""
        raise RuntimeError("a turn without a session cannot stream")


class GoingOn:
    """A turn that is continued."""

    def __init__(
        self, state: TurnState, went_on: WentOn | None = None, *, is_parked: bool = False
    ) -> None:
        self.state = state
        self.is_parked = is_parked
        is_same = went_on is not None and went_on.turn == state.turn_id
        self._went_on = went_on if is_same else None
        self.outcomes: Mapping[str, ToolOutcome] = {}  # given since, by call
        self._stored: Mapping[tuple[str, str], list[ToolOutcome]] = {}
        self._sent = _sent_in(state)

    def fill(self, fold: TurnFold) -> None:
        """Restore the turn's progress."""
        state = self.state
        for message in state.messages:
            fold.take_message(message)
        for one in state.calls:
            if not one.call.orchestration:
                fold.take_call(one.call)
        fold.end_calls(lambda call: how_cut_off(state, call))
        fold.responses = max((one.response for one in state.calls), default=-1) + 1
        fold.calls_begun += len(state.calls)
        if state.spent is not None:
            fold.go_on_from(state.spent)

    @property
    def open_calls(self) -> Sequence[CallState]:
        """The engine's own unanswered calls."""
        return [one for one in self._own if one.call.completed_at is None]

    @property
    def answered(self) -> Sequence[AgentToolCall]:
        """The engine's own answered calls, including those undone since."""
        calls = [one.call for one in self.state.calls]
        return [one for one in calls if one.orchestration and one.completed_at is not None]

    @property
    def _own(self) -> list[CallState]:
        return [one for one in self.state.calls if one.call.orchestration and not one.is_undone]

    @property
    def _lately(self) -> Iterator[tuple[CallState, bool]]:
        """The calls whose answers the thread may lack, and whether the model spoke after each."""
        last = {id(one) for one in self._last}
        for one in self.state.calls:
            if one.is_undone:
                continue
            is_heard = id(one) not in last
            if not is_heard or one.response > self._newest - LAG:
                yield one, is_heard

    @property
    def _heard_prompts(self) -> Iterator[AgentMessage]:
        """The prompts that the model spoke after, and that its thread may lack."""
        state, sent = self.state, {message.id for message in self._sent}
        old = [one.call.started_at for one in state.calls if one.response <= self._newest - LAG]
        since = max(old, default=0)
        retold = [message.sequence - 1 for message in state.messages if message.again]
        first = max((*retold, 0 if self._went_on is None else self._went_on.messages), default=0)
        for message in state.messages[first:]:
            is_prompt = message.role != "assistant" and message.id not in sent
            if is_prompt and message.created_at >= since:
                yield message

    @property
    def _newest(self) -> int:
        return max((one.response for one in self.state.calls), default=0)

    @property
    def _last(self) -> list[CallState]:
        """The calls whose answers the model may not have: open ones, and its last response's.

        Calls of one response are answered together. What the model says next shows that it has the
        answers.
        """
        calls = [one for one in self.state.calls if not one.is_undone]
        last = [one for one in calls if one.response == self._newest]
        ends = [one.answered_at for one in last]
        is_heard = all(end is not None and end < self.state.last_heard for end in ends)
        return [one for one in calls if one.answered_at is None or (one in last and not is_heard)]

    def carried(self, images: Callable[[Sequence[str]], tuple[Image, ...]]) -> Carried:
        """Return what the vendor's thread may lack; `images` finds those that texts cite."""
        calls = tuple(self._carried(one, heard, images) for one, heard in self._lately)
        heard = {message.id: message.content for message in self._heard_prompts}
        prompts = heard | {message.id: message.content for message in self._sent}
        return Carried(
            turn_id=self.state.turn_id, prompts=prompts, calls=calls, heard=frozenset(heard)
        )

    def _carried(
        self, one: CallState, heard: bool, images: Callable[[Sequence[str]], tuple[Image, ...]]
    ) -> CarriedCall:
        call = one.call
        outcome = self._outcome(call)
        if outcome is not None and call.orchestration and call.tool_name in _HOLD_MESSAGES:
            outcome = replace(outcome, images=images((outcome.text,)))
        return CarriedCall(
            call_id=call.id,
            tool=call.tool_name,
            arguments=call.params,
            orchestration=call.orchestration,
            outcome=outcome,
            heard=heard,
        )

    def _outcome(self, call: AgentToolCall) -> ToolOutcome | None:
        given = self.outcomes.get(call.id) or stored_outcome(call)
        if given is None and call.id in self.state.withheld and not call.orchestration:
            return ToolOutcome(text=WITHHELD, is_error=True)
        return given

    @property
    def unheard(self) -> frozenset[str]:
        """The ids of unanswered prompts; `retold` has the texts of all."""
        return frozenset(message.id for message in _unheard_in(self.state)) if self._sent else NONE

    def retold(self) -> str | None:
        """Return the unanswered prompts, for a session without a thread."""
        return "\n\n".join(message.content for message in self._sent) or None

    def lost_receives(self, calls: Collection[Call]) -> Mapping[str, ReceivedAnswer]:
        """Return the receives by id that nobody acted on; `calls` were answered since."""
        since = {call.id: call for call in calls}
        lost = {}
        for one in self._last:
            outcome, call = self._outcome(one.call), since.get(one.call.id)
            has_acted = bool(one.effects) or (call is not None and call.has_acted)
            if outcome is None or has_acted or not one.call.orchestration:
                continue
            messages = one.consumed if call is None else call.consumed
            data = outcome.data if isinstance(outcome.data, dict) else {}
            if messages or data.get("reminder"):
                lost[one.call.id] = ReceivedAnswer(messages, data)
        return lost

    def undo(self, calls: Collection[str]) -> None:
        """Count these receives as never made."""
        undone = (
            replace(one, is_undone=True) if one.call.orchestration and one.call.id in calls else one
            for one in self.state.calls
        )
        self.state = replace(self.state, calls=tuple(undone))

    def untold(self, carried: Carried, taken: Collection[str] | None) -> str | None:
        """Return what the model must be told because the vendor's thread lacks it.

        If what the thread has `taken` is unknown, tell all that the model has not heard. Calls are
        not told twice if the turn was continued before and the model has said nothing since.
        """
        held = _held(carried, taken)
        is_told = any(message.again for message in self._sent)
        prompts = [text for key, text in carried.prompts.items() if key not in held]
        calls = () if is_told else self._lost(carried, held)
        return render_untold(prompts, calls) if prompts or calls else None

    def _lost(self, carried: Carried, held: Collection[str]) -> list[CarriedCall]:
        until = 0 if self._went_on is None else self._went_on.responses
        told = {one.call.id for one in self.state.calls if one.response < until}
        return [
            call
            for call in carried.calls
            if call.call_id not in held and not (call.heard and call.call_id in told)
        ]

    def store(self, carried: Carried | None, taken: Collection[str] | None = None) -> None:
        """Keep answers for a model that repeats a call with an effect.

        Of the carried answers, those in the thread are left out: the model has read them and means
        a new call. Without a thread it is told all anew, so every answer of the turn counts.
        """
        told = None if carried is None else self._to_store(carried, _held(carried, taken))
        stored = defaultdict[tuple[str, str], list[ToolOutcome]](list)
        for one in self._own:
            outcome = self._outcome(one.call)
            if one.effects and outcome is not None and (told is None or one.call.id in told):
                stored[_key(one.call.tool_name, one.call.params)].append(outcome)
        self._stored = stored

    def _to_store(self, carried: Carried, held: Collection[str]) -> set[str]:
        """Return the calls that the model may repeat: their telling may be lost as well."""
        again = {message.id for message in self.state.messages if message.again}
        is_retold = any(key in again and key not in held for key in carried.prompts)
        lost = carried.calls if is_retold else self._lost(carried, held)
        return {call.call_id for call in lost}.difference(held)

    def answer_of(
        self, call_id: str, name: str, arguments: Mapping[str, Any]
    ) -> ToolOutcome | None:
        """Return the answer of a call repeated under its own id."""
        for call in (one.call for one in self._own if one.call.id == call_id):
            if _key(name, arguments) == _key(call.tool_name, call.params):
                return self._outcome(call)
        return None

    def take_stored(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome | None:
        """Return the stored answer of a repeated call, once."""
        found = self._stored.get(_key(name, arguments)) if self._stored else None
        return found.pop(0) if found else None


def _sent_in(state: TurnState) -> tuple[AgentMessage, ...]:
    """Return what the model was sent since it last spoke; `again` replaces all before."""
    sent: list[AgentMessage] = []
    for message in _unheard_in(state):
        if message.again:
            sent.clear()
        sent.append(message)
    return tuple(sent)


def _unheard_in(state: TurnState) -> tuple[AgentMessage, ...]:
    newest = max((one.call.started_at for one in state.calls), default=-math.inf)
    unheard: list[AgentMessage] = []
    for message in state.messages:
        if message.role == "assistant":
            unheard.clear()
        elif message.created_at > newest:
            unheard.append(message)
    return tuple(unheard)


def _held(carried: Carried, taken: Collection[str] | None) -> Collection[str]:
    if taken is not None:
        return taken
    return carried.heard.union(call.call_id for call in carried.calls if call.heard)


def ended_turn(end: TurnEnd) -> TurnResult:
    """Return a finished turn's result as far as later turns need it."""
    said = AgentMessage(id="", role="assistant", content=end.last_text, sequence=1, created_at=0)
    told = end.error
    error = None if told is None else AgentError(**{**told, "kind": ErrorKind(told["kind"])})
    return TurnResult(
        messages=(said,) if end.last_text else (),
        tool_calls=(),
        usage=TokenUsage(),
        stop_reason=StopReason(end.stop_reason),
        duration_ms=0,
        error=error,
    )


def cut_short(state: TurnState, now_ms: int, reason: StopReason) -> TurnResult:
    """Return the result of an open turn whose agent had ended when its engine died."""
    calls = []
    for one in state.calls:
        call = one.call
        if call.completed_at is None:
            status, error = how_cut_off(state, call)
            call = replace(call, status=status, error=error, completed_at=now_ms)
        calls.append(call)
    spent = state.spent or Spent()
    return TurnResult(
        messages=state.messages,
        tool_calls=tuple(calls),
        usage=spent.usage,
        cost_usd=spent.cost_usd,
        stop_reason=reason,
        duration_ms=max(0, now_ms - state.started_at),
        usage_provenance=None if state.spent is None else spent.tokens_from,
        cost_provenance=None if spent.cost_usd is None else spent.cost_from,
    )


def how_cut_off(state: TurnState, call: AgentToolCall) -> tuple[str, str]:
    """Return status and error of a call whose end nobody saw."""
    if call.id in state.withheld:
        return "failed", WITHHELD
    return "failed" if call.orchestration else "unknown", CUT_OFF


def stored_outcome(call: AgentToolCall) -> ToolOutcome | None:
    """Return a call's answer as it was given, or None."""
    if call.completed_at is None:
        return None
    is_error = call.status != "completed"
    text = (call.error if is_error else call.result) or ""
    try:
        data = json.loads(text)
    except ValueError:  # a vendor's own, or one that was cut
        data = None
    return ToolOutcome(text=text, is_error=is_error, data=data)


def _key(name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    return name, encode_canonical(arguments)
