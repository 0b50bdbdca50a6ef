"""A scripted model that goes by what a request tells it, never by how many came before.

A vendor whose engine was killed asks again for what it has lost, or goes on without asking: steps
that are counted would then say the wrong thing. So each conversation has a mind, which reads the
answers that the request holds, and says what is to be done next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsm_testing.playback import Call, HttpError, Reply, Step

from prsm_core.kit.quotation import unquote

if TYPE_CHECKING:
    from prsm_testing.playback import Conversation

_QUOTED = r"(?P<text>>[^\n]*(?:\n>[^\n]*)*)"
_TOLD = re.compile(
    rf"^(?P<tool>\"[^\n]*?\") with [^\n]* (?:was answered|failed):\n{_QUOTED}", re.MULTILINE
)
_SAID = re.compile(rf"^\[\w+\]\n{_QUOTED}", re.MULTILINE)
_CALLED = re.compile(
    r"\[I called (?P<tool>\"[^\n]*?\") with [^\n]*; \w+:\n(?P<text>.*)\]", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a call, as a model reads it: in its place, or told by a prompt."""

    tool: str
    text: str

    @property
    def data(self) -> Any:
        """Its value; None where nobody has answered: the call was cut off, or is to be repeated."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None


def answers_in(conversation: Conversation) -> Iterator[Answer]:
    """Yield all that a request says of calls: their outputs, and what its prompts tell of them."""
    for _, tool, text in conversation.outputs:
        yield Answer(tool, text)
    for prompt in conversation.user:
        for found in _TOLD.finditer(prompt):
            yield Answer(json.loads(found["tool"]), unquote(found["text"]))
        for said in _SAID.finditer(prompt):  # a conversation that was rebuilt
            if called := _CALLED.fullmatch(unquote(said["text"])):
                yield Answer(json.loads(called["tool"]), unquote(called["text"]))


class Known:
    """What a model knows by a request."""

    def __init__(self, conversation: Conversation) -> None:
        told = list(answers_in(conversation))
        self.answers = [one for one in told if one.data is not None]
        self._heard_of = {one.tool for one in told}

    def of(self, tool: str) -> Sequence[Any]:
        """Return the answers of a tool, in order of time; each message of one that has others."""
        data = [answer.data for answer in self.answers if answer.tool == tool]
        return [one for each in data for one in (each, *each.get("others", ()))]

    def heard_of(self, tool: str) -> bool:
        """Return whether there is any output of a tool, be it that its call was cut off."""
        return tool in self._heard_of


Mind = Callable[[Known], Sequence[Call]]


class Minds:
    """What answers all agents: by the first of the markers that a conversation holds.

    A conversation whose task is complete is told so; it may ask once more all the same, since the
    interrupt that follows the answer comes some milliseconds later.
    """

    def __init__(self, minds: Mapping[str, tuple[str, Mind]]) -> None:
        self.minds = minds  # marker and mind, by lane
        self._numbers = 0
        self.failures: list[str] = []

    @property
    def unplayed(self) -> Mapping[str, int]:
        """Nothing: a mind has no steps."""
        return {}

    def answer(self, conversation: Conversation) -> Reply:
        """Answer a request."""
        self._numbers += 1
        lane = self.lane_of(conversation)
        if lane is None:
            self.failures.append("no marker is in the request")
            return Reply(step=Step(), error=HttpError(status=400, message="whose is this?"))
        known = Known(conversation)
        calls = () if known.of("task_complete") else tuple(self.minds[lane][1](known))
        ids = tuple(f"call_{call.id}__{self._numbers}{n}" for n, call in enumerate(calls))
        step = Step(calls=calls, say=None if calls else "done")
        return Reply(step=step, number=self._numbers, lane=lane, call_ids=ids)

    def lane_of(self, conversation: Conversation) -> str | None:
        """Return whose conversation it is."""
        for text in conversation.user:
            found = [
                (text.index(marker), lane)
                for lane, (marker, _) in self.minds.items()
                if marker in text
            ]
            if found:
                return min(found)[1]
        return None
