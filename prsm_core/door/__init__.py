"""What `AppHandle` and `Hub` answer: frozen records, public by their names here.

`msgspec.to_builtins` makes the JSON of one: what commands print with `--json`, in the order of its
fields, and what another process is answered. A field that is UNSET is not in it.

The records are imported when they are used.
"""

from prsm_core import attach

_HOMES = {
    "changes": (
        "AgentName Change ChangeAuthor ChangeDetail ChangeHeld ChangeLeft ChangedFile "
        "Comment CommitReport DecidedChange FileLeft LeftWorktree NewCommit Rationale Reason "
        "SentComments Snapshot UndoReport"
    ),
    "sessions": (
        "AgentNode AgentTree BudgetLine BudgetReport CallEntry ChangeCount Completion DetachedRun "
        "Entry HistoryEntry HubSession ModelRow OpenPermission OpenQuestion OpenRequest OpenTool "
        "PolicyGrant PolicyReport PolicyRule ProviderReport RequestOutcome ResultEntry RunState "
        "RunningTurn SessionSummary TextEntry ThinkingEntry UnreadPrompt UnwrittenMessage Usage "
        "UserEntry View Waiting"
    ),
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
