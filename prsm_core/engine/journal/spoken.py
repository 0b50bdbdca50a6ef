"""What the turns that run have said so far: the text that no event has yet.

Pieces of a message come before the event that has the whole of it, which is committed later. Who
looks at the session in between is shown both as of one committed event.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prsm_core.domain.events import Event

_HEEDED = frozenset({"turn_started", "turn_finished", "message_completed"})


@dataclass(slots=True, eq=False)
class _Message:
    """A message that is complete, and the number of its event once that is committed."""

    number: int  # in its turn
    text: str
    thinking: str
    seq: int | None = None


@dataclass(slots=True, eq=False)
class _Turn:
    turn_id: str = ""  # not known before its event
    number: int = 1  # of the message that the model is at
    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    complete: list[_Message] = field(default_factory=list)


class Spoken:
    """Owns the texts of the turns that run, by agent; an agent has one turn at a time."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._holders = 0

    def piece(self, kind: str, agent: str, text: str) -> None:
        """Note a piece of a message, without secrets: `text_delta` or `thinking_delta`."""
        turn = self._turn(agent)
        (turn.text if kind == "text_delta" else turn.thinking).append(text)

    def complete(self, agent: str | None, text: str, thinking: str | None) -> None:
        """Note that a message of the model is whole; what follows is of its next one."""
        turn = self._turn(agent or "")
        turn.complete.append(_Message(turn.number, text, thinking or ""))
        turn.number += 1
        turn.text.clear()
        turn.thinking.clear()

    def _turn(self, agent: str) -> _Turn:
        """Return the turn of an agent that speaks; that it has begun may be told later."""
        return self._turns.setdefault(agent, _Turn())

    def heed(self, events: tuple[Event, ...]) -> None:
        """Take note of what was committed."""
        for event in events:
            if event.type in _HEEDED and event.agent is not None:
                self._heed(event, event.agent)

    def _heed(self, event: Event, agent: str) -> None:
        turn_id = event.data.get("turn")
        if event.type == "turn_started":
            if self._turn(agent).turn_id:  # what has none has just begun: this tells which it is
                self._turns[agent] = _Turn()
            self._turns[agent].turn_id = str(turn_id)
            return
        turn = self._turns.get(agent)
        if turn is None or turn.turn_id != turn_id:
            return
        if event.type == "turn_finished":
            del self._turns[agent]
        elif event.data.get("role") == "assistant":
            waiting = (message for message in turn.complete if message.seq is None)
            if (message := next(waiting, None)) is not None:
                message.seq = event.seq
            if not self._holders:
                turn.complete = [each for each in turn.complete if each.seq is None]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep what is committed meanwhile: somebody looks at the session as it was before."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1

    def since(
        self, agent: str, turn_id: str, seq: int, redact: Callable[[Any], Any]
    ) -> dict[str, Any]:
        """Return what the turn has said beyond event `seq`; see AppHandle.view.

        Pieces came without secrets, whole messages did not: `redact` takes them out.
        """
        turn = self._turns.get(agent)
        if turn is None or turn.turn_id != turn_id:  # it has just begun, or ended
            turn = _Turn()
        text = "".join(turn.text)
        later = [each for each in turn.complete if each.seq is None or each.seq > seq]
        return {
            "message": turn.number,
            "text": text,
            "thinking": "".join(turn.thinking),
            "at": len(text),
            "unwritten": [
                {
                    "message": each.number,
                    "text": redact(each.text),
                    "thinking": redact(each.thinking),
                }
                for each in later
            ],
        }
