"""Tells by an agent's calls and messages that it goes round in circles; does nothing about it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from prsm_core.domain.record import Record
from prsm_core.kit.quotation import quote_word

if TYPE_CHECKING:
    from prsm_core.config.limits import StuckSettings


_SHOWN = 60  # characters of a tool's name


class Pattern(StrEnum):
    """How an agent is stuck."""

    REPEAT = "repeat"
    ALTERNATION = "alternation"
    MONOLOGUE = "monologue"


class Finding(Record, frozen=True, kw_only=True):
    """A pattern that has reached its limit, or twice its limit: then it is final."""

    pattern: Pattern
    text: str
    is_final: bool


class _Call(Record, frozen=True):
    tool: str
    arguments: int
    result: int
    polls: bool


class StuckDetector(Struct, eq=False):
    """Counts how long each pattern goes on, in constant memory.

    A pattern is found when it reaches its limit and once more, for good, at twice that:

    - repeat: the same call with the same result, `repeats` times in a row;
    - alternation: two different ones by turns, `rounds` full rounds;
    - monologue: `messages` messages within one turn, or the same text `texts` times over any
      number of turns, without a call between them.

    A call that only asks how others are doing (`polls`) is given `polls` repeats or rounds: they
    may need their time, although an agent that never stops asking is stuck all the same.
    Everything counts from the last prompt that was not the same as the one before it, because an
    agent that is told something new is not where it was. A limit of 0 switches its pattern off.
    """

    _limits: StuckSettings
    _prompt: int | None = None
    _last: _Call | None = None
    _before: _Call | None = None
    _text: int | None = None
    _repeats: int = 0
    _steps: int = 0
    _messages: int = 0
    _texts: int = 0

    def turn_began(self, prompt: int | None) -> None:
        """Take note of a turn and the hash of its prompt; None goes on where the last stopped."""
        self._messages = 0
        if prompt is not None and prompt != self._prompt:
            self._prompt = prompt
            self._restart()

    def called(
        self, tool: str, arguments: int, result: int, *, polls: bool = False
    ) -> Finding | None:
        """Take note of a call that has ended, by the hashes of its arguments and its result."""
        self._fall_silent()
        call = _Call(tool, arguments, result, polls)
        if call == self._last:
            self._repeats += 1
            self._steps = 1
        else:
            self._repeats = 1
            self._steps = self._steps + 1 if call == self._before else 2
        self._before, self._last = self._last, call
        repeat = self._repeat(call)
        if self._steps % 2:
            return repeat
        return _graver(repeat, self._alternation(call))

    def said(self, text: int) -> Finding | None:
        """Take note of a message that has ended, by the hash of its text."""
        self._messages += 1
        self._texts = self._texts + 1 if text == self._text else 1
        self._text = text
        return _graver(self._same_text(), self._monologue())

    def _restart(self) -> None:
        self._last = self._before = None
        self._repeats = 0
        self._steps = 0  # of two calls by turns, the first included
        self._fall_silent()

    def _fall_silent(self) -> None:
        self._messages = 0
        self._text = None
        self._texts = 0

    def _same_text(self) -> Finding | None:
        if not _is_due(self._texts, self._limits.texts):
            return None
        text = f"the same message {self._texts} times"
        return _finding(Pattern.MONOLOGUE, text, self._texts > self._limits.texts)

    def _monologue(self) -> Finding | None:
        if not _is_due(self._messages, self._limits.messages):
            return None
        text = f"{self._messages} messages in a row without a tool call"
        return _finding(Pattern.MONOLOGUE, text, self._messages > self._limits.messages)

    def _repeat(self, call: _Call) -> Finding | None:
        limit = self._limits.polls if call.polls else self._limits.repeats
        if self._repeats < limit or not _is_due(self._repeats, limit):
            return None
        times = f"{self._repeats} times in a row"
        text = f"the same call of {_short(call.tool)} with the same result {times}"
        return _finding(Pattern.REPEAT, text, self._repeats > limit)

    def _alternation(self, call: _Call) -> Finding | None:
        """Look at an even number of steps."""
        other, rounds = self._before, self._steps // 2
        if other is None:
            return None
        limit = self._limits.polls if call.polls or other.polls else self._limits.rounds
        if not _is_due(rounds, limit):
            return None
        both = f"{_short(other.tool)} and {_short(call.tool)}"
        text = f"{both} by turns with the same results, {rounds} rounds"
        return _finding(Pattern.ALTERNATION, text, rounds > limit)


def _graver(one: Finding | None, other: Finding | None) -> Finding | None:
    """Return the final one of two findings, else whichever there is."""
    return other if one is None or (other is not None and other.is_final) else one


def _is_due(count: int, limit: int) -> bool:
    return limit > 0 and count in (limit, 2 * limit)


def _short(tool: str) -> str:
    """Return a tool's name at a length that a person can read: a vendor may tell anything."""
    name = tool if len(tool) <= _SHOWN else f"{tool[:_SHOWN]}…"
    return name if name.isprintable() else quote_word(name)


def _finding(pattern: Pattern, text: str, is_final: bool) -> Finding:
    return Finding(pattern=pattern, text=text, is_final=is_final)
