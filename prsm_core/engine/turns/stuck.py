"""Find agents that go round in circles by their calls and messages; warn, then fail them."""

from __future__ import annotations

from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from prsm_core.domain.record import Record
from prsm_core.domain.turns import AgentMessage
from prsm_core.kit.quotation import quote_word
from prsm_core.store.codec import encode_canonical

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from prsm_core.config.limits import StuckSettings
    from prsm_core.domain.sessions import TurnState
    from prsm_core.domain.tools import ToolOutcome
    from prsm_core.domain.turns import AgentToolCall
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.turns.call import Call
    from prsm_core.engine.turns.ports import Ends, Life
    from prsm_core.kit.background import Background
    from prsm_core.policies.port import CommandPolicy


_SHOWN = 60  # characters of a tool's name


class Pattern(StrEnum):
    """How an agent is stuck."""

    REPEAT = "repeat"
    ALTERNATION = "alternation"
    MONOLOGUE = "monologue"


class Finding(Record, frozen=True):
    """A pattern at its limit, or at twice its limit: then it is final."""

    pattern: Pattern
    text: str
    is_final: bool


class _Call(Record, frozen=True):
    tool: str
    arguments: int
    result: int
    polls: bool


class StuckDetector(Struct, eq=False):
    """Counts how long each pattern lasts, in constant memory.

    A pattern is found at its limit and again, finally, at twice the limit. Repeat: the same call
    with the same result, `repeats` times in a row. Alternation: two calls by turns, `rounds` full
    rounds. Monologue: `messages` messages in one turn, or the same text `texts` times over any
    number of turns, without a call between them.

    A call that only asks how others are doing has `polls` as its limit. A new prompt restarts all
    counts: the agent knows something new. A limit of 0 switches its pattern off.
    """

    _limits: StuckSettings
    _prompt: int | None = None
    _last: _Call | None = None
    _before: _Call | None = None
    _text: int | None = None
    _repeats: int = 0
    _steps: int = 0  # of two calls by turns, the first included
    _messages: int = 0
    _texts: int = 0

    def turn_began(self, prompt: int | None) -> None:
        """Note a turn and its prompt's hash; None continues the last turn."""
        self._messages = 0
        if prompt is not None and prompt != self._prompt:
            self._prompt = prompt
            self._last = self._before = None
            self._repeats = self._steps = 0
            self._fall_silent()

    def called(
        self, tool: str, arguments: int, result: int, *, polls: bool = False
    ) -> Finding | None:
        """Note an ended call by the hashes of its arguments and result."""
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
        """Note an ended message by its text's hash."""
        self._messages += 1
        self._texts = self._texts + 1 if text == self._text else 1
        self._text = text
        same = f"the same message {self._texts} times"
        many = f"{self._messages} messages in a row without a tool call"
        return _graver(
            _monologue(same, self._texts, self._limits.texts),
            _monologue(many, self._messages, self._limits.messages),
        )

    def _fall_silent(self) -> None:
        self._messages = 0
        self._text = None
        self._texts = 0

    def _repeat(self, call: _Call) -> Finding | None:
        limit = self._limits.polls if call.polls else self._limits.repeats
        if not _is_due(self._repeats, limit):
            return None
        times = f"{self._repeats} times in a row"
        text = f"the same call of {_short(call.tool)} with the same result {times}"
        return Finding(Pattern.REPEAT, text, self._repeats > limit)

    def _alternation(self, call: _Call) -> Finding | None:
        other, rounds = self._before, self._steps // 2
        if other is None:
            return None
        limit = self._limits.polls if call.polls or other.polls else self._limits.rounds
        if not _is_due(rounds, limit):
            return None
        both = f"{_short(other.tool)} and {_short(call.tool)}"
        text = f"{both} by turns with the same results, {rounds} rounds"
        return Finding(Pattern.ALTERNATION, text, rounds > limit)


def _monologue(text: str, count: int, limit: int) -> Finding | None:
    return Finding(Pattern.MONOLOGUE, text, count > limit) if _is_due(count, limit) else None


def _graver(one: Finding | None, other: Finding | None) -> Finding | None:
    return other if one is None or (other is not None and other.is_final) else one


def _is_due(count: int, limit: int) -> bool:
    return limit > 0 and count in (limit, 2 * limit)


def _short(tool: str) -> str:
    """Return a tool's name cut and quoted for people: a vendor may send anything."""
    name = tool if len(tool) <= _SHOWN else f"{tool[:_SHOWN]}…"
    return name if name.isprintable() else quote_word(name)


_encode_sorted = msgspec.json.Encoder(order="sorted").encode

KIND = "stuck"  # the error kind of an agent that failed for it

# They ask how others are doing, so that the same answer may be right for a long time.
_POLLS = frozenset(
    {"wait_for_message", "check_child_status", "get_children_status", "get_child_history"}
)
_ADVICE = "Do something else; if you cannot go on, call task_complete and say what is missing."


class StuckWatch(Struct, eq=False):
    """Owns the detector of one incarnation and the notices for its agent."""

    _life: Life
    _limits: StuckSettings | None  # None: nobody watches
    _ends: Ends
    _background: Background
    _journal: Journal
    _commands: CommandPolicy
    _prompt: str | None = None  # of the present turn
    _made: StuckDetector | None = None  # by the agent's first act
    _notice: str | None = None

    @property
    def _detector(self) -> StuckDetector | None:
        if self._made is None and self._limits is not None:
            self._made = StuckDetector(self._limits)
            self._made.turn_began(None if self._prompt is None else hash(self._prompt))
            self._prompt = None
        return self._made

    def go_on(self, turn: TurnState) -> None:
        """Count what the agent did in a turn before its engine died."""
        detector = self._detector
        if detector is None:
            return
        from prsm_core.engine.turns.going_on import stored_outcome  # once a session goes on

        asked = next((one.content for one in turn.messages if one.role != "assistant"), None)
        detector.turn_began(None if asked is None else hash(asked))
        for act in _in_order(turn):
            if isinstance(act, AgentMessage):
                detector.said(hash(act.content.strip()))
            elif not act.orchestration:
                self._ended(act)
            elif (outcome := stored_outcome(act)) is not None:
                self._answered(act.tool_name, act.params, outcome.without_notice())

    def begin_turn(self, prompt: str | None) -> str | None:
        """Note a turn; return its prompt with any notices."""
        if self._made is not None:
            self._made.turn_began(None if prompt is None else hash(prompt))
        else:
            self._prompt = prompt if prompt is not None else self._prompt
        if prompt is None or self._notice is None:
            return prompt
        notice, self._notice = self._notice, None
        return f"{prompt}\n\n{notice}"

    def tell(self, text: str) -> None:
        """Tell the agent something with its next answer or prompt."""
        self._notice = text if self._notice is None else f"{self._notice}\n\n{text}"

    def said(self, text: str) -> None:
        """Note an ended message, unless it was only thinking."""
        if self._detector is not None and text.strip():
            self._act(self._detector.said(hash(text.strip())))

    def ended(self, call: AgentToolCall, *, denied: bool = False) -> None:
        """Note a vendor's call that has ended or was denied."""
        self._act(self._ended(call, denied=denied))

    def _ended(self, call: AgentToolCall, *, denied: bool = False) -> Finding | None:
        if self._detector is None:
            return None
        result, command = hash((call.status, call.result, call.error)), call.params.get("command")
        is_shell = call.tool_name == "Bash" and isinstance(command, str)
        # Who looks up too often is denied it.
        polls = is_shell and not denied and self._commands.looks_up(str(command))
        return self._detector.called(
            call.tool_name, hash_arguments(call.params), result, polls=polls
        )

    def answered(self, call: Call, outcome: ToolOutcome) -> ToolOutcome:
        """Note an orchestration call; return its answer with any notices."""
        self._act(self._answered(call.name, call.args, outcome))
        notices = [text for text in (call.notice, self._notice) if text is not None]
        self._notice = None
        return outcome.with_notice("\n\n".join(notices)) if notices else outcome

    def _answered(self, name: str, args: Mapping[str, Any], outcome: ToolOutcome) -> Finding | None:
        if self._detector is None:
            return None
        data = outcome.data
        if isinstance(data, dict) and data.get("type") == "pending":  # its token is no news
            result = hash_arguments({**data, "token": None})
        else:
            result = hash(outcome.text)
        return self._detector.called(name, hash_arguments(args), result, polls=name in _POLLS)

    def _act(self, finding: Finding | None) -> None:
        record = self._life.record
        if finding is None or record.is_over:
            return
        name, what = record.descriptor.name, f"{finding.pattern}: {finding.text}"
        if finding.is_final:
            self._background.launch(self._fail(f"stuck ({what})"), name=f"{name} is stuck")
            return
        self._journal.warn(record.agent_id, f"{name} may be stuck ({what})")
        self.tell(f"You may be stuck ({what}). {_ADVICE}")

    async def _fail(self, message: str) -> None:
        if not self._life.is_over:  # else another life may have begun, which is not to be stopped
            await self._ends.stop_and_fail(self._life.record, message, KIND)


def _in_order(turn: TurnState) -> list[AgentMessage | AgentToolCall]:
    said = [
        (one.created_at, 0, one)
        for one in turn.messages
        if one.role == "assistant" and one.content.strip()
    ]
    done = [
        (one.call.completed_at, 1, one.call)
        for one in turn.calls
        if one.call.completed_at is not None
    ]
    acts: list[tuple[int, int, AgentMessage | AgentToolCall]] = [*said, *done]
    return [act for _, _, act in sorted(acts, key=itemgetter(0, 1))]


def hash_arguments(arguments: Mapping[str, Any]) -> int:
    """Hash arguments within this engine, with the faster encoder where it can."""
    try:
        return hash(_encode_sorted(arguments))
    except (TypeError, UnicodeEncodeError):  # a key that is no text, half a surrogate pair
        return hash(encode_canonical(arguments))
