"""What is told of one agent while it works: the events of its stream."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from prsm_core.domain.record import Record


class StreamEvent(Record, frozen=True, kw_only=True):
    """One thing that an agent does; `type` is what it is called on the wire."""

    type: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values: its type, then its fields."""
        return {"type": self.type, **msgspec.structs.asdict(self)}


class StreamStart(StreamEvent, frozen=True, kw_only=True):
    """A turn has begun, the agent's `n`th."""

    type = "stream_start"
    session: str
    run: str | None
    agent: str
    turn: str
    n: int


class Token(StreamEvent, frozen=True, kw_only=True):
    """A piece of the `message`th message of the turn, as its provider told it."""

    type = "token"
    text: str
    message: int


class Reasoning(StreamEvent, frozen=True, kw_only=True):
    """A piece of what the model thinks for a message."""

    type = "reasoning"
    text: str
    message: int


class ToolStatus(StreamEvent, frozen=True, kw_only=True):
    """A call has begun or ended: started | completed | failed | unknown.

    One that was denied has failed. Of one that is unknown nobody told how it ended.
    """

    type = "tool_status"
    call: str
    tool: str
    status: str
    summary: str | None = None  # the first line of what it gave, or why it failed


class StreamEnd(StreamEvent, frozen=True, kw_only=True):
    """A turn is over, or the agent has ended between two; nothing comes behind a `final` one."""

    type = "stream_end"
    turn: str | None
    stop_reason: str | None
    final: bool


class StreamError(StreamEvent, frozen=True, kw_only=True):
    """A turn or the agent has failed. `partial`: some text of the turn was told before.

    One that is not `final` is followed by another try, or by whatever the agent does next.
    """

    type = "stream_error"
    turn: str | None
    error: str
    partial: bool
    final: bool


class AgentPhase(Record, frozen=True, kw_only=True):
    """What an agent is at from now on.

    `phase` is start, streaming, tool_use, compaction_start, compaction_end or end (of a turn).
    """

    phase: str
    at: float | None  # Unix seconds; None where it began before the stream did
