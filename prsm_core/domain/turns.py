"""Turns: the context a turn starts from, the events it streams, the result it folds into."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import field
from msgspec.structs import asdict, force_setattr

from prsm_core.domain.record import Record
from prsm_core.domain.usage import Provenance, Spent, TokenUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.domain.images import Image
    from prsm_core.domain.tools import ToolSpec

RESULT_LIMIT = 64 * 1024  # a tool result in events and ledger is cut there
IMAGE_SCHEME = "prsm-image:"  # how a text cites an image: ![name](prsm-image:file)
CUT_MARK = "\n… [cut by prsm at 64 KiB]"


def cut_result(text: str) -> str:
    """Return `text`, cut with a mark where it exceeds RESULT_LIMIT characters."""
    return text if len(text) <= RESULT_LIMIT else text[:RESULT_LIMIT] + CUT_MARK


class StopReason(StrEnum):
    """Why a turn stopped."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    TOOL_USE = "tool_use"
    TIMEOUT = "timeout"
    ABORTED = "aborted"
    ERROR = "error"


class ErrorKind(StrEnum):
    """The seven kinds of turn error."""

    CONTEXT_OVERFLOW = "context_overflow"
    AUTH_FAILURE = "auth_failure"
    RATE_LIMIT = "rate_limit"
    MODEL_ERROR = "model_error"
    TIMEOUT = "timeout"
    COMPACTION_FAILURE = "compaction_failure"
    UNKNOWN = "unknown"


def _take_text(record: Record, name: str, kind: type[StrEnum]) -> None:
    """Turn a field's plain text into the enum's member; the engine refuses other values later."""
    value = getattr(record, name)
    if type(value) is str and value in kind.__members__.values():
        force_setattr(record, name, kind(value))


class AgentError(Record, frozen=True, gc=False, kw_only=True):
    """Why a turn failed, and whether trying again can help."""

    kind: ErrorKind
    message: str
    retryable: bool = False
    retry_after_s: float | None = None

    def __post_init__(self) -> None:
        """Take a kind that is given as text."""
        _take_text(self, "kind", ErrorKind)

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON values."""
        return asdict(self) | {"kind": self.kind.value}


class TextDelta(Record, frozen=True, gc=False):
    """A piece of the answer, live only."""

    text: str


class ThinkingDelta(Record, frozen=True, gc=False):
    """A piece of the model's thinking, live only."""

    text: str


class AssistantMessage(Record, frozen=True, gc=False):
    """A whole message, when it has ended."""

    text: str
    thinking: str | None = None


class ToolCallStarted(Record, frozen=True, gc=False):
    """The vendor's own tool began; orchestration calls are recorded by the engine."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]


class ToolCallFinished(Record, frozen=True, gc=False):
    """The vendor's own tool ended: completed, failed or denied, as its vendor tells.

    A call whose end the vendor does not tell has none: it is unknown once its turn is over.

    `is_whole` is False if status and result leave out what the model is told, such as an exit code:
    two of these are never taken for the same. `exit_code` is that of a shell command, None if
    untold: such a command proves nothing, whatever its status.
    """

    call_id: str
    status: str
    result: str | None = None
    error: str | None = None
    is_whole: bool = True
    exit_code: int | None = None


class ToolOutput(Record, frozen=True, gc=False):
    """A piece of what a vendor's running call writes, live only, in order; the result has all."""

    call_id: str
    text: str


class PlanEntry(Record, frozen=True, gc=False):
    """One thing that the model means to do: pending, in_progress or completed."""

    text: str
    status: str = "pending"


class PlanUpdated(Record, frozen=True, gc=False):
    """The model's whole plan, as it is now."""

    entries: tuple[PlanEntry, ...]


class UsageReported(Record, frozen=True, gc=False):
    """Tokens and cost since the last report, never cumulative, and where they come from.

    The context fields say how full the model's window is now, in tokens; None = not told.
    """

    usage: TokenUsage
    cost_usd: float | None = None
    provenance: Provenance = Provenance.MEASURED  # of the tokens
    cost_provenance: Provenance = Provenance.MEASURED
    context_used: int | None = None
    context_window: int | None = None

    def __post_init__(self) -> None:
        """Take provenances that are given as text."""
        _take_text(self, "provenance", Provenance)
        _take_text(self, "cost_provenance", Provenance)


class StepEnded(Record, frozen=True, gc=False):
    """One model response is complete; its orchestration calls were given to `host.call_tool`."""


class Notice(Record, frozen=True, gc=False):
    """Something worth telling: level info, warning or error.

    One shown `once` says the same in each run, and nothing that protects the person depends on it;
    the console does not repeat it to who has seen it.
    """

    level: str
    text: str
    once: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the data of its event."""
        data: dict[str, Any] = {"level": self.level, "text": self.text}
        return {**data, "once": True} if self.once else data


class TurnEnded(Record, frozen=True, gc=False):
    """The turn is over; exactly one ends every stream."""

    stop_reason: StopReason
    error: AgentError | None = None

    def __post_init__(self) -> None:
        """Take a reason that is given as text."""
        _take_text(self, "stop_reason", StopReason)


ProviderEvent = (
    TextDelta
    | ThinkingDelta
    | AssistantMessage
    | ToolCallStarted
    | ToolCallFinished
    | ToolOutput
    | PlanUpdated
    | UsageReported
    | StepEnded
    | Notice
    | TurnEnded
)
"""What a provider tells during a turn; `TurnEnded` is the last, and comes once."""


class AgentMessage(Record, frozen=True, gc=False, kw_only=True):
    """One message of a turn; what a tool has answered is the `result` of its AgentToolCall."""

    id: str
    role: str  # user | assistant; system: what stands for turns that were summarised
    content: str
    sequence: int
    created_at: int  # Unix ms
    thinking: str | None = None
    again: bool = False  # a prompt of what the thread lacked when its turn went on


class TokenBudget(Record, frozen=True, gc=False, kw_only=True):
    """The context window of the model in tokens, and what of it is used as a turn begins.

    `used` is what the vendor told last with what is new since, or else all counted, three bytes a
    token. None is unknown.
    """

    context_window: int | None = None
    used: int | None = None


class AbortSignal(Protocol):
    """Says that a run is not wanted any more; an `asyncio.Event` is one.

    Once it is set the engine interrupts every turn of the run; a provider whose turn is a program
    of its own may look at it.
    """

    def is_set(self) -> bool:
        """Return whether the run was aborted."""

    async def wait(self) -> object:
        """Wait until the run is aborted; what it returns counts for nothing."""


class AssembledContext(Record, frozen=True, kw_only=True):
    """All a turn needs: three layers, tools, model, controls, and ledger metadata.

    `history` is what the vendor's own thread does not hold: empty on a live or natively resumed
    session; after a rebuild the provider renders it before `current_message`, which is None if a
    resumed turn only goes on. `images` are those that both texts cite, for a provider with the
    capability. `thinking_config` is `{"effort": …}`, a word of the vendor's, if one is set.
    `timeout_ms` limits reasoning, calls of tools not counted; the engine then ends the turn. The
    metadata is never sent to a model.
    """

    system_prompt: str
    history: Sequence[AgentMessage] = ()
    current_message: AgentMessage | None = None
    images: Sequence[Image] = ()
    tools: Sequence[ToolSpec] = ()
    model: str
    provider: str
    thinking_config: Mapping[str, Any] | None = None
    max_response_tokens: int | None = None
    temperature: float | None = None
    token_budget: TokenBudget = field(default_factory=TokenBudget)
    timeout_ms: int | None = None
    abort_signal: AbortSignal | None = None
    run_id: str
    session_label: str
    parent_turn_id: str | None = None
    role: str  # manager | worker | unified: a master that works, too
    toolset_name: str
    permissions_granted: tuple[str, ...] = ()
    source_event_id: str | None = None  # the message whose coming began the turn; None: the task
    workspace_path: str


class AgentToolCall(Record, frozen=True, gc=False, kw_only=True):
    """One tool call of a turn.

    A vendor's call is pending once it is allowed, and running once its vendor tells of it. It is
    unknown if its turn ended and nobody told its end: that proves nothing.
    """

    id: str
    tool_name: str
    params: Mapping[str, Any]
    status: str  # pending | running | completed | failed | unknown
    started_at: int  # Unix ms
    sequence: int
    result: str | None = None
    error: str | None = None
    completed_at: int | None = None
    orchestration: bool = False
    spawned_session_label: str | None = None


class Effect(Record, frozen=True, gc=False, kw_only=True):
    """What a call has done already, noted by the step that did it.

    A call may have several by name: `question`, `child:0`, `child:1`, `request` …
    """

    turn_id: str
    call_id: str
    name: str
    ref: str | None = None  # of what was made: a message, an agent, a request
    data: Mapping[str, Any] | None = None


class CompactionResult(Record, frozen=True, gc=False, kw_only=True):
    """A compaction that happened during a turn."""

    summary: str
    summarized_through_turn_id: str
    first_kept_turn_id: str
    turns_summarized: int
    model: str
    provider: str
    tokens_before: int
    tokens_after: int
    summary_tokens: int
    summarization_input_tokens: int
    summarization_output_tokens: int
    duration_ms: int
    trigger: str  # context_limit | overflow_recovery


class TurnResult(Record, frozen=True, gc=False, kw_only=True):
    """What one turn produced: messages, calls, usage, and why it stopped."""

    messages: tuple[AgentMessage, ...]
    tool_calls: tuple[AgentToolCall, ...]
    usage: TokenUsage
    stop_reason: StopReason
    duration_ms: int
    cost_usd: float | None = None
    error: AgentError | None = None
    compaction: CompactionResult | None = None
    permissions_used: tuple[str, ...] = ()
    usage_provenance: Provenance | None = None  # None = measured, where anything is known
    cost_provenance: Provenance | None = None

    @property
    def spent(self) -> Spent:
        """What the turn used, and where the numbers come from."""
        return Spent.of_turn(self.usage, self.cost_usd, self.usage_provenance, self.cost_provenance)

    @property
    def last_text(self) -> str:
        """The last assistant message of the turn, or an empty string."""
        texts = [m.content for m in self.messages if m.role == "assistant" and m.content.strip()]
        return texts[-1] if texts else ""

    @property
    def ends_silent(self) -> bool:
        """Whether the model's last response holds no text: nothing came after its last call."""
        called = max((call.started_at for call in self.tool_calls), default=-1)
        return not any(
            message.role == "assistant" and message.content.strip() and message.created_at > called
            for message in self.messages
        )
