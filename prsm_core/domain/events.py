"""Events: facts in the past tense, from the engine to whoever watches.

The table EVENT_FIELDS is the contract of `prsm run --json` and of every sink: a new field may be
added, none is renamed or removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

LIVE_TYPES = frozenset({"text_delta", "thinking_delta"})

EVENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "run_started": ("task", "workspace"),
    "run_finished": (
        "status",
        "summary",
        "error",
        "duration_s",
        "usage",
        "cost_usd",
        "provenance",
        "evidence",
        "unknown_turns",
    ),
    "agent_spawned": ("name", "parent", "role", "provider", "model", "depth", "prompt"),
    "agent_state_changed": (
        *("from", "to", "reason"),
        *("evidence", "evidence_gaps", "evidence_by"),
    ),
    "turn_started": ("turn", "n"),
    "turn_finished": ("turn", "stop_reason", "usage", "error", "cost_usd", "provenance", "context"),
    "message_completed": ("turn", "role", "text", "thinking"),
    "tool_call_started": ("call", "tool", "arguments", "orchestration"),
    "tool_call_finished": ("call", "status", "result", "error", "duration_s", "exit_code"),
    "message_routed": ("mid", "kind", "from", "to", "correlation_id"),
    "permission_requested": (
        "request",
        "tool",
        "command",
        "paths",
        "reason",
        "options",
        "parts",
        "rules",
        "check",
    ),
    "permission_resolved": ("request", "verdict", "by", "via", "check"),
    "check_denied": ("check", "tool", "command", "paths", "reason"),
    "question_asked": ("request", "question", "options"),
    "question_answered": ("request", "answer", "by", "via"),
    "progress_reported": ("status", "percent"),
    "file_changed": ("path", "kind", "added", "removed", "call"),
    "deadlock_detected": ("agents", "waits", "victim", "action"),
    "budget_warned": ("kind", "used", "limit", "reserved", "scope", "provenance"),
    "budget_exceeded": ("kind", "used", "limit", "reserved", "scope", "provenance"),
    "retry_scheduled": ("attempt", "delay_s", "error", "tries_left", "pauses_s"),
    "notice": ("level", "text"),
    "sink_dropped": ("sink", "count"),
    "plugin_quarantined": ("plugin", "error"),
    "text_delta": ("text",),
    "thinking_delta": ("text",),
}

_KNOWN_FIELDS = {kind: frozenset(names) for kind, names in EVENT_FIELDS.items()}
_ENVELOPE = ("seq", "ts", "session", "run", "agent", "type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `seq` is gap-free per session, None for live deltas and uncommitted events."""

    type: str
    session: str
    run: str | None
    ts: float  # Unix seconds
    agent: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    seq: int | None = None

    def __post_init__(self) -> None:
        """Refuse a type or a field that the contract does not know."""
        known = _KNOWN_FIELDS.get(self.type)
        if known is None:
            raise ValueError(f"unknown event type {self.type!r}")
        if not self.data.keys() <= known:
            extra = sorted(self.data.keys() - known)
            raise ValueError(f"event {self.type} has no field {extra}")

    def to_dict(self) -> dict[str, Any]:
        """Return the envelope: seq, ts, session, run, agent, type, then the type's fields."""
        return {
            "seq": self.seq,
            "ts": self.ts,
            "session": self.session,
            "run": self.run,
            "agent": self.agent,
            "type": self.type,
            **{name: self.data.get(name) for name in EVENT_FIELDS[self.type]},
        }

    @classmethod
    def from_dict(cls, envelope: Mapping[str, Any]) -> Event:
        """Build an event from the values of `to_dict`."""
        data = {key: value for key, value in envelope.items() if key not in _ENVELOPE}
        return cls(**{key: envelope[key] for key in _ENVELOPE}, data=data)

    def at(self, seq: int) -> Event:
        """Return the event as committed at `seq`."""
        # Spelt out, since every event of every run comes by: `replace` takes twice as long.
        return Event(
            type=self.type,
            session=self.session,
            run=self.run,
            ts=self.ts,
            agent=self.agent,
            data=self.data,
            seq=seq,
        )
