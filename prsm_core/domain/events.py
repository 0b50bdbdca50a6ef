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
        "status",
        "summary",
        "error",
        "duration_s",
        "usage",
        "cost_usd",
        "provenance",
        "evidence",
        "unknown_turns",
        *("exit_code", "problems"),
    ),
    "session_forked": ("origin", "at"),
    "agent_spawned": (
        *("name", "parent", "role", "provider", "model", "depth", "prompt"),
        *("call", "cwd", "mode", "incarnation", "region", "labels", "continues"),
    ),
    "agent_labels_changed": ("labels",),
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
        "request",
        "tool",
        "command",
        "paths",
        "reason",
        "options",
        "parts",
        "rules",
        "check",
        "change",
        *("call", "arguments", "cwd", "expires_at"),
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

EVENT_MEANINGS: Mapping[str, str] = {
    "run_started": "a run has begun",
    "run_resumed": "another process goes on with the run, for the `epoch`th time, the first is 1",
    "run_finished": "the last event of a run in its process: how it ended, what it used, the exit"
    " code of `prsm run`, and the `problems` that speak against its result",
    "session_forked": "the session is a fork: all before is its `origin`'s, up to event `at`",
    "agent_spawned": "there is a new agent, by a `call` of its `parent`, None for a master;"
    " its conversation begins as that of the agent it `continues` was by then",
    "agent_labels_changed": "what is said of it is other: all its `labels` from now on",
    "agent_model_changed": "it goes on with another model: a person has chosen it, or one failed",
    "agent_state_changed": "its state is another, and why; at its end what speaks for its result",
    "agent_held": "a login or a limit holds it: what it waits for, why, and `until` when (Unix"
    " seconds) where its vendor tells that; once `waiting_on` is None it is held no more",
    "conversation_begun": "a new life of the agent knows nothing of what was said before",
    "turn_started": "the `n`th prompt of an agent goes to its provider",
    "turn_finished": "the turn is over: why, what it used, how full the model's window is",
    "compaction_started": "a conversation of so many `tokens` is about to be summarised, and why",
    "compaction_finished": "a `summary` stands for it now, but for the `kept` last messages",
    "message_completed": "a whole message of the agent, the `message`th of its turn, or a prompt; "
    "`again`: it tells what its thread lacked when the turn went on",
    "tool_call_started": "a tool is called, in a `response`, or a vendor's tool was allowed to run;"
    " one of PRSM's own, if `orchestration`, tells of which `turn` it is",
    "tool_call_finished": "the call has ended: completed, failed or denied, or unknown where its"
    " turn is over and nobody told how it ended; one of PRSM's own tells its `turn`",
    "receives_undone": "nobody read the answers of these `calls`: their messages are unread again",
    "plan_updated": "the agent's whole plan: of each entry its `text` and its `status`",
    "message_routed": "a message went from one agent to another",
    "permission_requested": "a person is asked, until `expires_at`, whether an agent may do this",
    "permission_resolved": "the request is answered, by whom and where",
    "check_denied": "the permission check of a plugin denied something",
    "question_asked": "an agent asks a person, until `expires_at` (Unix seconds)",
    "question_answered": "the question is answered, or nobody could",
    "progress_reported": "how far an agent says it is",
    "file_changed": "a file is another: lines added and removed, by which `call`, and `how` that is"
    " known: named, shared, sole, region, possible or outside; `beside` are others who are on the"
    " file",
    "changes_decided": "a person accepts changes, has taken them back, or has undone that; each has"
    " its `state`",
    "snapshot_taken": "files are kept as they are; `unquiet` are those who may have written then",
    "worktree_merged": "an agent with a worktree has ended, and its changes are merged, nothing,"
    " a conflict (nothing was written), kept, or partial: what is in its region is, and what is"
    " `outside` is not; what is not merged is on its branch; `prsm undo ACT` takes the merge back",
    "gate_finished": "a gate ran for an agent: what its `problem` is, None where it passed, and"
    " whether it judged the `whole` workspace",
    "deadlock_detected": "agents wait for each other, and what was done about it",
    "budget_warned": "80 % of a budget are used",
    "budget_exceeded": "a budget is used up",
    "retry_scheduled": "a turn has failed and is tried again after a delay",
    "notice": "something worth telling; `level` is info, warning or error; the console "
    "shows what is `once` only to a person who has not seen that text",
    "sink_dropped": "a sink was too slow or failed, and so many events never reached it",
    "plugin_quarantined": "a plugin could not be used in this run, and why",
    "text_delta": "a piece of a message, `at` characters from its beginning, live only",
    "thinking_delta": "a piece of what the model thinks for a message, live only",
    "tool_output_delta": "a piece of what a running call writes, 64 KiB at most, live only",
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
        # A copy is not checked again, as one that is made is: every event of every run comes by.
        numbered = copy(self)
        force_setattr(numbered, "seq", seq)
        return numbered


def ends_run(event: Event, run_id: str, since: int = 0) -> bool:
    """Return whether an event is the end of a run that goes on from the event `since`.

    A process that was interrupted has told of an end, too, before another went on with its run.
    """
    if event.type != "run_finished" or event.run != run_id:
        return False
    return event.data["status"] != "interrupted" or (event.seq or 0) > since
