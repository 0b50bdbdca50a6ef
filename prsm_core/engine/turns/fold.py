"""Fold provider events into messages, calls, usage and an end."""

from __future__ import annotations

import logging
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from prsm_core.domain.turns import (
    AgentError,
    AgentMessage,
    AgentToolCall,
    AssistantMessage,
    CompactionResult,
    ErrorKind,
    StepEnded,
    StopReason,
    TextDelta,
    TokenBudget,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutput,
    TurnEnded,
    TurnResult,
    UsageReported,
    cut_result,
)
from prsm_core.domain.usage import Provenance, Spent, TokenUsage
from prsm_core.engine.guarded.failing import describe, keepable
from prsm_core.engine.spending import cost_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prsm_core.config.limits import PriceSettings
    from prsm_core.domain.turns import ProviderEvent

UNTOLD = "nobody told how it ended: it may have run"
_log = logging.getLogger("prsm.engine")
_NOTHING_USED, _NOTHING_HELD = TokenUsage(), TokenBudget()
_CALL_STATUS = {"completed": "completed", "failed": "failed", "denied": "failed"}


class TurnFold(Struct, eq=False):
    """Owns what one turn has produced so far."""

    turn_id: str
    number: int
    started_at_ms: int
    new_id: Callable[[], str]
    now_ms: Callable[[], int]
    price: PriceSettings | None = None  # what the tokens cost, as long as nobody tells the cost
    messages: list[AgentMessage] = []
    calls: dict[str, AgentToolCall] = {}  # the vendor's
    usage: TokenUsage = _NOTHING_USED
    cost_usd: float | None = None
    usage_provenance: Provenance | None = None
    cost_provenance: Provenance | None = None
    context: TokenBudget = _NOTHING_HELD
    thread_used: int | None = None  # tokens that the vendor says are in its thread now
    end: TurnEnded | None = None
    compaction: CompactionResult | None = None
    permissions_used: list[str] = []
    said: int = 0  # messages of the model
    responses: int = 0  # of the model that are whole
    calls_begun: int = 0  # the vendor's and ours
    _partial: list[str] = []
    _said_at: int = 0  # the last message was made
    _called_at: int = 0  # the last call began

    @property
    def partial_text(self) -> str:
        """The text so far: whole messages and the one being written."""
        said = [m.content for m in self.messages if m.role == "assistant" and m.content]
        tail = "".join(self._partial)
        return "\n".join([*said, tail] if tail else said)

    def add_message(
        self, role: str, text: str, thinking: str | None = None, *, again: bool = False
    ) -> AgentMessage:
        """Append a message, dated later than all calls so far: calls follow their message."""
        self._said_at = max(self.now_ms(), self._called_at + 1)
        message = AgentMessage(
            id=self.new_id(),
            role=role,
            content=text,
            sequence=len(self.messages) + 1,
            created_at=self._said_at,
            thinking=thinking,
            again=again,
        )
        self.take_message(message)
        return message

    def take_message(self, message: AgentMessage) -> None:
        """Append an existing message."""
        self.messages.append(message)
        self.said += message.role == "assistant"

    def fold(self, event: ProviderEvent) -> None:
        """Take one provider event. After the turn's end only usage counts."""
        if self.end is not None and not isinstance(event, UsageReported):
            return
        match event:
            case StepEnded():  # the first, since it ends every response
                self.responses += 1
            case TextDelta(text):
                self._partial.append(text)
            case AssistantMessage(text, thinking):
                self._partial = []
                self.add_message("assistant", text, thinking)
            case ToolCallStarted():
                self._call_started(event)
            case ToolCallFinished():
                self.end_call(event)
            case UsageReported():
                self._usage(event)
            case TurnEnded():
                self.end = event

    @property
    def spent(self) -> Spent:
        """What the turn has used so far; a cost that nobody reported is estimated from prices."""
        cost, source = self.cost_usd, self.cost_provenance
        if cost is None and self.price is not None:
            cost, source = cost_of(self.price, self.usage), Provenance.ESTIMATED
        return Spent.of_turn(self.usage, cost, self.usage_provenance, source)

    def end_partial(self) -> AgentMessage | None:
        """Make a message of the text that the turn's end cut off, if any."""
        if not self._partial:
            return None
        message = self.add_message("assistant", "".join(self._partial))
        self._partial = []
        return message

    def contradicts(self, event: ProviderEvent) -> bool:
        """Whether a call begins twice, or writes or ends without being open."""
        if not isinstance(event, (ToolCallStarted, ToolOutput, ToolCallFinished)):
            return False
        call = self.calls.get(event.call_id)
        if isinstance(event, ToolCallStarted):
            return call is not None and call.status == "running"
        return call is None or call.completed_at is not None

    @property
    def has_running(self) -> bool:
        """Whether any call of the vendor's runs."""
        return any(call.status == "running" for call in self.calls.values())

    def open_calls(self) -> list[AgentToolCall]:
        """Return the vendor's calls that have not ended."""
        return [call for call in self.calls.values() if call.completed_at is None]

    def call_seconds(self, call_id: str) -> float | None:
        """Return how long a finished call took, in seconds."""
        call = self.calls.get(call_id)
        if call is None or call.completed_at is None:
            return None
        return (call.completed_at - call.started_at) / 1000

    def call_begins(self) -> tuple[int, int]:
        """Return number and Unix time in ms of a call that begins now."""
        self.calls_begun += 1
        self._called_at = max(self.now_ms(), self._said_at)
        return self.calls_begun, self._called_at

    def go_on_from(self, spent: Spent) -> None:
        """Begin with what the turn had used when it was cut off."""
        self.usage, self.cost_usd = spent.usage, spent.cost_usd
        if spent.usage.known_total is not None:
            self.usage_provenance = spent.tokens_from
        if spent.cost_usd is not None:
            self.cost_provenance = spent.cost_from

    def end_calls(self, how: Callable[[AgentToolCall], tuple[str, str]]) -> None:
        """End the vendor's open calls; `how` gives the status and error of each."""
        for call in self.open_calls():
            status, error = how(call)
            ends = self._ends(call)
            self.take_call(replace(call, status=status, error=error, completed_at=ends))

    def result(self) -> TurnResult:
        """Return the turn's result. A stream without an end is an error."""
        end = self.end or TurnEnded(
            StopReason.ERROR,
            AgentError(
                kind=ErrorKind.UNKNOWN, message="the provider's stream ended without a turn end"
            ),
        )
        now, spent = self.now_ms(), self.spent
        self.end_partial()
        calls = tuple(
            call
            if call.completed_at is not None
            else replace(call, status="unknown", error=UNTOLD, completed_at=now)
            for call in self.calls.values()
        )
        return TurnResult(
            messages=tuple(self.messages),
            tool_calls=calls,
            usage=self.usage,
            cost_usd=spent.cost_usd,
            stop_reason=end.stop_reason,
            duration_ms=now - self.started_at_ms,
            error=end.error,
            compaction=self.compaction,
            permissions_used=tuple(dict.fromkeys(self.permissions_used)),
            usage_provenance=self.usage_provenance,
            cost_provenance=None if spent.cost_usd is None else spent.cost_from,
        )

    def permit(self, tool: str) -> None:
        """Take note of a permission that was given."""
        self.permissions_used.append(tool)

    def take_call(self, call: AgentToolCall) -> None:
        """Keep a vendor's call as it is now."""
        self.calls[call.id] = call

    def allow(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> None:
        """Take note of a call of the vendor's that may run from now on."""
        self.take_call(self._new_call(call_id, tool, arguments, "pending"))

    def _call_started(self, event: ToolCallStarted) -> None:
        call = self.calls.get(event.call_id)
        if call is not None and call.status == "pending":
            self.take_call(replace(call, status="running"))
            return
        self.take_call(self._new_call(event.call_id, event.tool, event.arguments, "running"))

    def _new_call(
        self, call_id: str, tool: str, arguments: Mapping[str, Any], status: str
    ) -> AgentToolCall:
        sequence, started_at = self.call_begins()
        return AgentToolCall(
            id=call_id,
            tool_name=tool,
            params=arguments,
            status=status,
            started_at=started_at,
            sequence=sequence,
        )

    def end_call(self, event: ToolCallFinished) -> None:
        """End a call of the vendor's, also of a turn that is over."""
        call = self.calls.get(event.call_id)
        if call is None:
            return
        ended = replace(
            call,
            status=_CALL_STATUS.get(event.status, "failed"),
            result=None if event.result is None else cut_result(event.result),
            error=event.error or ("denied" if event.status == "denied" else None),
            completed_at=self._ends(call),
        )
        self.take_call(ended)

    def _ends(self, call: AgentToolCall) -> int:
        return max(self.now_ms(), call.started_at)

    def _usage(self, report: UsageReported) -> None:
        self.usage = self.usage + report.usage
        told = report.usage.known_total
        if told is not None:
            known = self.usage_provenance or report.provenance
            self.usage_provenance = known.combine(report.provenance)
        if report.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + report.cost_usd
            known = self.cost_provenance or report.cost_provenance
            self.cost_provenance = known.combine(report.cost_provenance)
        if report.context_used is not None:
            self.thread_used = report.context_used
        used = told if report.context_used is None else report.context_used
        self.context = TokenBudget(
            used=self.context.used if used is None else used,
            context_window=report.context_window or self.context.context_window,
        )


def unused_id(wanted: str, is_used: Callable[[str], bool]) -> str:
    """Return an unused id like the wanted one: some vendors use an id twice in a turn."""
    names = chain([wanted], (f"{wanted}#{number}" for number in count(2)))
    return next(name for name in names if not is_used(name))


def plain_turn(error: BaseException, fold: TurnFold) -> TurnResult:
    """Return a result with usage and cause, for a turn whose own cannot be written."""
    _log.error("a turn cannot be written", exc_info=error)
    why = f"what the turn said cannot be kept: {describe(error)}"
    counts = {name: n if type(n) is int else None for name, n in fold.usage.to_dict().items()}
    return TurnResult(
        messages=(),
        tool_calls=(),
        usage=TokenUsage(**counts),
        stop_reason=StopReason.ERROR,
        duration_ms=fold.now_ms() - fold.started_at_ms,
        error=AgentError(kind=ErrorKind.UNKNOWN, message=why),
    )


def plain_call(call: AgentToolCall, redact: Callable[[Any], Any]) -> AgentToolCall:
    """Return a call without any content that may not be writable."""
    name = keepable(call.tool_name, redact)
    return replace(call, tool_name=name, params={}, result=None, error=None)
