"""What a package that keeps the files of agents is made with, and what it implements.

It registers a `WorkspaceFilesSpec` by the hook `prsm_workspace_files`. An engine opens the
`WorkspaceFiles` of its session once and gives it a `FilesContext`. Names are imported when used.
"""

from prsm_core import attach

_HOMES = {
    "prsm_core.config.paths": "Paths",
    "prsm_core.config.schema": "GateSettings WorkspaceSettings",
    "prsm_core.domain.agents": "AgentDescriptor SpawnRequest UNCHECKED",
    "prsm_core.domain.changes": (
        "ACCEPTED Author COMMITTED ChangeRow Decision FileChange NAMED OPEN_STATES OUTSIDE PENDING "
        "POSSIBLE REGION REJECTED SHARED SOLE UNMERGED UNSURE path_text text_path"
    ),
    "prsm_core.domain.ids": "Ids",
    "prsm_core.domain.messages": "MessageType",
    "prsm_core.domain.sessions": "SessionSnapshot SessionState",
    "prsm_core.domain.steps": "Step",
    "prsm_core.domain.writes.changes": "ChangesDecided FileChanged SnapshotTaken",
    "prsm_core.engine.journal.feed": "Feed",
    "prsm_core.engine.journal.unit": "Journal",
    "prsm_core.engine.journal.views": "ConversationStore",
    "prsm_core.engine.processes.executor": "CommandSandbox run_shell",
    "prsm_core.engine.processes.launcher": "ProcessLauncher",
    "prsm_core.engine.quiet": "CallWatch Hold QuietMoment WritingCall",
    "prsm_core.engine.state": "AgentRecord Evidence Leases Level Roster",
    "prsm_core.engine.workspace_files": (
        "ChangeWatch FilesContext Folders NoChanges NoSnapshots Proof ToldTurn Trees "
        "WorkspaceFiles tell_snapshot"
    ),
    "prsm_core.errors": "AgentSpawnError",
    "prsm_core.interfaces.files": "FilesCare FilesReader STRAYS WorkspaceFilesSpec",
    "prsm_core.interfaces.store": "AgentRow",
    "prsm_core.workspace.identity": ("RepoIdentity find_git_dir is_in_repository repo_identity"),
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
