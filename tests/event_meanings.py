"""What each type of event means, for the reference of plugin authors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

EVENT_MEANINGS: Mapping[str, str] = {
    "run_started": "a run has begun",
    "run_resumed": "another process goes on with the run, for the `epoch`th time, the first is 1",
    "run_finished": "the last event of a run in its process: how it ended, what it used, the exit"
    " code of `prsm run`, and the `problems` that speak against its result",
    "session_forked": "the session is a fork: all before is its `origin`'s, up to event `at`",
    "agent_spawned": "there is a new agent, by a `call` of its `parent`, None for a master;"
    " its conversation begins as that of the agent it `continues` was by then",
    "agent_labels_changed": "what is said of it is other: all its `labels` from now on",
    "agent_mode_changed": "its new life is in another permission mode, of a master that of its run;"
    " `mode` is its own, BYPASS for a master that only reads",
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
