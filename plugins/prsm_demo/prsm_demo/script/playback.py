"""Playback: which step of a scenario answers a request, with its templates filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prsm_demo.script.place import KeptThread, LanePlace
from prsm_demo.script.retold import steps_done
from prsm_demo.script.steps import Call, Failure, HttpError, Lane, Step
from prsm_demo.script.templates import TemplateError, as_text, fill

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core import AgentMessage
    from prsm_demo.script.scenario import Scenario

AS_IT_IS = "="  # an id that begins so is used as it stands, also a second time
_SCRIPTED_ID = re.compile(r"call_(?P<id>[\w-]+)__\d+")
_MAX_PIECES = 32  # a text is streamed in at most so many deltas


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a request says, without its wire format."""

    user: tuple[str, ...]
    system: tuple[str, ...]
    outputs: tuple[tuple[str, str, str], ...]  # call id, tool name, text; in order of time
    text: str  # every text of the request, for `expect` and regular expressions
    agent: str | None = None  # the name of the one who asks, where it is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What to answer: a step whose calls have their final arguments and ids, or an error."""

    step: Step
    number: int = 0  # of the reply; ids on the wire are made of it
    lane: str | None = None
    place: int = 0  # of the step in its lane
    error: HttpError | None = None
    failure: Failure | None = None
    call_ids: tuple[str, ...] = ()
    is_over: bool = False  # the lane had no step left


class _Position:
    """A lane, and how far it has been played."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.place = LanePlace(lane=lane.name)

    def remember(self, conversation: Conversation) -> None:
        """Keep the outputs of a request: a rebuilt conversation may not hold them any more."""
        for call_id, tool, text in conversation.outputs:
            scripted = _SCRIPTED_ID.fullmatch(call_id)
            self.place.outputs[tool] = text
            if scripted:
                self.place.outputs[scripted["id"]] = text

    def is_late(self) -> bool:
        """Whether its last step ends the agent, and this is the first request after it."""
        was_late, self.place.was_late = self.place.was_late, True
        ends = bool(self.lane.steps) and self.lane.steps[-1].calls
        return not was_late and any(call.tool == "task_complete" for call in ends or ())


class Player:
    """Plays a scenario: one reply per request. Failures are texts for the scenario's author.

    Args:
        scenario: What is played.
        may_be_late: A lane whose last step calls task_complete may be asked once more: a real
            program begins its next request some milliseconds after that call's answer, and on a
            busy machine the interrupt that ends its turn comes later.
    """

    def __init__(self, scenario: Scenario, *, may_be_late: bool = False) -> None:
        self._may_be_late = may_be_late
        self._positions = {lane.name: _Position(lane) for lane in scenario.lanes}
        self._replies = 0
        self._calls = 0
        self.failures: list[str] = []

    @property
    def unplayed(self) -> dict[str, int]:
        """The number of steps left, by lane, where there are any."""
        left = {name: len(at.lane.steps) - at.place.step for name, at in self._positions.items()}
        return {name: count for name, count in left.items() if count}

    def answer(self, conversation: Conversation) -> Reply:
        """Choose the lane, take its next step and fill in its templates."""
        at = self._find(conversation)
        self._replies += 1
        if at is None:
            reply = self._refuse("no lane's marker is in the request")
        else:
            at.remember(conversation)
            reply = self._next(at, conversation)
        return replace(reply, number=self._replies, lane=at.lane.name if at else None)

    def _next(self, at: _Position, conversation: Conversation) -> Reply:
        lane, place = at.lane, at.place
        if place.step >= len(lane.steps):
            if not (self._may_be_late and at.is_late()):
                self.failures.append(f"lane {lane.name}: a request after the last step")
            return Reply(step=Step(say="done"), is_over=True)
        number = place.step
        step = lane.steps[number]
        trouble = step.error or step.fail
        if trouble and place.errors < trouble.times:
            place.errors += 1
            if place.errors == trouble.times and not (step.say or step.calls):
                place.advance()
            return Reply(step=step, error=step.error, failure=step.fail)
        place.advance()
        where = f"lane {lane.name} step {number}"
        return replace(self._play(step, where, place.outputs, conversation), place=number)

    def _play(
        self, step: Step, where: str, outputs: Mapping[str, str], conversation: Conversation
    ) -> Reply:
        if missing := [text for text in step.expect if text not in conversation.text]:
            return self._refuse(f"{where}: the request does not hold {missing}")
        try:
            calls = tuple(
                replace(call, arguments=fill(dict(call.arguments), outputs, conversation.text))
                for call in step.calls
            )
            say = fill(step.say, outputs, conversation.text)
        except TemplateError as error:
            return self._refuse(f"{where}: {error}")
        step = replace(step, calls=calls, say=say if say is None else as_text(say))
        return Reply(step=step, call_ids=tuple(self._call_id(call) for call in calls))

    def place(self, conversation: Conversation) -> LanePlace | None:
        """Return how far the lane of a conversation was played; None where it has no lane."""
        at = self._find(conversation)
        return None if at is None else at.place

    def join(self, threads: Iterable[KeptThread]) -> None:
        """Be as far as all these threads, which may have played the same lanes."""
        joined = sorted(threads, key=lambda kept: kept.calls)
        for kept in joined:
            self._replies = max(self._replies, kept.replies)
            self._calls = max(self._calls, kept.calls)  # no number is given twice
            at = self._positions.get(kept.place.lane) if kept.place is not None else None
            if at is None or kept.place is None:
                continue  # it was never asked, or of another scenario
            place, theirs = at.place, kept.place
            place.outputs |= theirs.outputs
            if (place.step, place.errors) < (theirs.step, theirs.errors):
                place.step, place.errors = theirs.step, theirs.errors
                place.was_late = theirs.was_late

    def skip(self, conversation: Conversation, history: Sequence[AgentMessage]) -> None:
        """Pass over what a rebuilt history shows as done, in a lane that was never played here."""
        at = self._find(conversation)
        if at is None or at.place.step or at.place.errors:
            return
        at.place.step, answered = steps_done(at.lane.steps, history)
        for call, text in answered:
            at.place.outputs |= {name: text for name in (call.tool or call.kind, call.id) if name}

    @property
    def counted(self) -> tuple[int, int]:
        """How many replies were given, and how many calls they had."""
        return self._replies, self._calls

    def step_at(self, lane: str, place: int) -> Step | None:
        """Return a step as the scenario has it; None where there is no such place."""
        at = self._positions.get(lane)
        return at.lane.steps[place] if at and 0 <= place < len(at.lane.steps) else None

    def _find(self, conversation: Conversation) -> _Position | None:
        for text in (*conversation.user, *conversation.system):
            found = [
                (text.index(at.lane.marker), at)
                for at in self._positions.values()
                if at.lane.marker and at.lane.marker in text
            ]
            if found:
                return min(found, key=lambda entry: entry[0])[1]
        if conversation.agent in self._positions:
            return self._positions[conversation.agent]
        return next((at for at in self._positions.values() if not at.lane.marker), None)

    def _call_id(self, call: Call) -> str:
        self._calls += 1
        if call.id is not None and call.id.startswith(AS_IT_IS):
            return call.id
        return f"call_{call.id or call.tool or call.kind}__{self._calls}"

    def _refuse(self, why: str) -> Reply:
        self.failures.append(why)
        error = HttpError(status=400, code="scenario_mismatch", message=why)
        return Reply(step=Step(), error=error)


def pieces(text: str) -> list[str]:
    """Split a text at words into at most 32 pieces that join to it again."""
    words = re.findall(r"\S*\s*", text)[:-1] or [text]
    size = -(-len(words) // _MAX_PIECES)
    return ["".join(words[n : n + size]) for n in range(0, len(words), size)]
