"""Events: facts in the past tense, from the engine to whoever watches.

The table EVENT_FIELDS is the contract of `prsm run --json` and of every sink: a new field may be
added, none is renamed or removed.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import force_setattr

from prsm_core.domain.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

LIVE_TYPES = frozenset({"text_delta", "thinking_delta", "tool_output_delta"})

EVENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "run_started": ("task", "workspace"),
    "run_resumed": ("epoch",),
    "run_finished": (
        *("status", "summary", "error", "duration_s", "usage", "cost_usd", "provenance"),
        *("evidence", "unknown_turns", "exit_code", "problems"),
    ),
    "session_forked": ("origin", "at"),
    "agent_spawned": (
        *("name", "parent", "role", "provider", "model", "depth", "prompt"),
        *("call", "cwd", "mode", "incarnation", "region", "labels", "continues"),
    ),
    "agent_labels_changed": ("labels",),
    "agent_mode_changed": ("from", "to", "mode"),
    "agent_model_changed": ("provider", "model", "reasoning_effort"),
    "agent_state_changed": (
        *("from", "to", "reason"),
        *("evidence", "evidence_gaps", "evidence_by"),
        "waiting_on",
    ),
    "agent_held": ("waiting_on", "reason", "until"),
    "conversation_begun": (),
    "turn_started": ("turn", "n"),
    "turn_finished": ("turn", "stop_reason", "usage", "error", "cost_usd", "provenance", "context"),
    "compaction_started": ("trigger", "tokens", "window"),
    "compaction_finished": (
        *("trigger", "turn", "summary", "kept", "prompt", "model"),
        *("tokens_before", "tokens_after", "error"),
    ),
    "message_completed": ("turn", "role", "text", "thinking", "message", "id", "again"),
    "tool_call_started": ("call", "tool", "arguments", "orchestration", "response", "turn"),
    "tool_call_finished": (
        *("call", "status", "result", "error", "duration_s", "exit_code", "turn"),
    ),
    "receives_undone": ("turn", "calls"),
    "plan_updated": ("entries",),
    "message_routed": ("mid", "kind", "from", "to", "correlation_id"),
    "permission_requested": (
        *("request", "tool", "command", "paths", "reason", "options", "parts", "rules"),
        *("check", "change", "call", "arguments", "cwd", "expires_at"),
    ),
    "permission_resolved": ("request", "verdict", "by", "via", "check"),
    "check_denied": ("check", "tool", "command", "paths", "reason"),
    "question_asked": (
        *("request", "question", "options", "call", "multiple", "expires_at", "data"),
    ),
    "question_answered": ("request", "answer", "by", "via"),
    "progress_reported": ("status", "percent"),
    "file_changed": (
        *("path", "kind", "added", "removed", "call"),
        *("change", "how", "agents", "beside"),
    ),
    "changes_decided": ("changes",),
    "snapshot_taken": (
        *("snapshot", "kind", "folder", "tree", "branch", "head"),
        *("description", "bytes_skipped", "unquiet"),
    ),
    "worktree_merged": (
        *("result", "branch", "worktree", "commit"),
        *("files", "conflicts", "left_out", "outside", "why", "act"),
    ),
    "gate_finished": ("gate", "folder", "whole", "required", "problem"),
    "deadlock_detected": ("agents", "waits", "victim", "action"),
    "budget_warned": ("kind", "used", "limit", "reserved", "scope", "provenance"),
    "budget_exceeded": ("kind", "used", "limit", "reserved", "scope", "provenance"),
    "retry_scheduled": ("attempt", "delay_s", "error", "tries_left", "pauses_s"),
    "notice": ("level", "text", "once"),
    "sink_dropped": ("sink", "count"),
    "plugin_quarantined": ("plugin", "error"),
    "text_delta": ("turn", "message", "at", "text"),
    "thinking_delta": ("turn", "message", "at", "text"),
    "tool_output_delta": ("call", "at", "text"),
}


_KNOWN_FIELDS = {kind: frozenset(names) for kind, names in EVENT_FIELDS.items()}
_ENVELOPE = ("seq", "ts", "session", "run", "agent", "type")


class Event(Record, frozen=True, kw_only=True, gc=False):  # JSON holds nothing that holds it
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
        if not known.issuperset(self.data):
            extra = sorted(self.data.keys() - known)
            raise ValueError(f"event {self.type} has no field {extra}")

    def to_dict(self) -> dict[str, Any]:
        """Return the envelope: seq, ts, session, run, agent, type, then the type's fields."""
        return {
            **{name: getattr(self, name) for name in _ENVELOPE},
            **{name: self.data.get(name) for name in EVENT_FIELDS[self.type]},
        }

    @classmethod
    def from_dict(cls, envelope: Mapping[str, Any]) -> Event:
        """Build an event from the values of `to_dict`."""
        data = {key: value for key, value in envelope.items() if key not in _ENVELOPE}
        return cls(**{key: envelope[key] for key in _ENVELOPE}, data=data)

    def at(self, seq: int) -> Event:
        """Return the event as committed at `seq`."""
        # A copy is not checked again, as one that is made is: every event of every run comes by.
        numbered = copy(self)
        force_setattr(numbered, "seq", seq)
        return numbered


def ends_run(event: Event, run_id: str, since: int = 0) -> bool:
    """Return whether an event ends a run that goes on from the event `since`.

    Interrupted processes have told of an end of it before.
    """
    if event.type != "run_finished" or event.run != run_id:
        return False
    return event.data["status"] != "interrupted" or (event.seq or 0) > since
