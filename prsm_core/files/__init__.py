"""What a package that keeps the files of agents is made with, and what it implements.

It registers a `WorkspaceFilesSpec` by the hook `prsm_workspace_files`. An engine opens the
`WorkspaceFiles` of its session once, as it is made, and gives it a `FilesContext`. Without such a
package runs work, and nothing is recorded of their files.

The names are imported when they are used.
"""

from prsm_core import attach

_HOMES = {
    "prsm_core.engine.quiet": "CallWatch Hold QuietMoment WritingCall",
    "prsm_core.engine.workspace_files": (
        "ChangeWatch Decisions FilesContext Folders Proof ToldTurn Trees Undo WorkspaceFiles"
    ),
    "prsm_core.interfaces.files": "FilesCare STRAYS WorkspaceFilesSpec",
}

__getattr__, __dir__, __all__ = attach(__name__, _HOMES)
