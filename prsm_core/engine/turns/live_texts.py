"""What a model says and its calls write while they do: texts that are told in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from prsm_core.domain.sparing import NOTHING, drop, put
from prsm_core.domain.turns import (
    RESULT_LIMIT,
    AssistantMessage,
    StepEnded,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnEnded,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.domain.turns import ProviderEvent
    from prsm_core.engine.journal.spoken import LiveText
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.turns.fold import TurnFold

_KINDS: dict[type, str] = {TextDelta: "text_delta", ThinkingDelta: "thinking_delta"}
_STOPS = frozenset({AssistantMessage, ToolCallStarted, StepEnded, TurnEnded})


class LiveTexts(Struct, eq=False):
    """Owns the texts of the message that a model is at, by the kind of their pieces.

    A text that goes on later has its place behind what was told of it. What may be the beginning of
    a secret is held back until the text goes on, or something comes that a person sees beside it.
    """

    _journal: Journal
    _agent_id: str
    _fold: TurnFold
    _texts: Mapping[type, LiveText] = NOTHING
    _outputs: Mapping[str, LiveText] = NOTHING  # of calls that run
    _newest: type | None = None  # the kind of the last piece
    _number: int = 1  # of the message in its turn

    def __post_init__(self) -> None:
        """Begin with the message that the model is at."""
        self._number = self._fold.said + 1

    def heed(self, event: ProviderEvent) -> None:
        """Tell a piece of text, and end the texts that go on no further."""
        kind = type(event)
        if isinstance(event, (TextDelta, ThinkingDelta)):
            if kind is not self._newest:
                self._begin(kind)
            self._texts[kind].feed(event.text)
        elif kind in _STOPS:
            self.end()
            if kind is AssistantMessage:
                self._texts = NOTHING
                self._number = self._fold.said + 1
        elif isinstance(event, ToolOutput):
            self._output(event)
        elif isinstance(event, ToolCallFinished):
            output = drop(self._outputs, event.call_id)
            if output is not None:
                output.end()

    def _output(self, event: ToolOutput) -> None:
        """Tell what a call writes, as much as its result may be long."""
        call = event.call_id
        if call not in self._outputs:
            of: dict[str, Any] = {"call": call, "limit": RESULT_LIMIT}
            output = self._journal.live_text("tool_output_delta", self._agent_id, **of)
            self._outputs = put(self._outputs, call, output)
        self._outputs[call].feed(event.text)

    def _begin(self, kind: type) -> None:
        """Let a text go on where another one was, or nothing."""
        self.end()
        self._newest = kind
        if kind not in self._texts:
            of: dict[str, Any] = {"turn": self._fold.turn_id, "message": self._number}
            text = self._journal.live_text(_KINDS[kind], self._agent_id, **of)
            self._texts = put(self._texts, kind, text)

    def end(self) -> None:
        """Tell what is held back."""
        if self._newest is not None:
            self._texts[self._newest].end()
            self._newest = None

    def end_all(self) -> None:
        """Tell what is held back of all texts: the turn is over."""
        self.end()
        for output in self._outputs.values():
            output.end()
        self._outputs = NOTHING
