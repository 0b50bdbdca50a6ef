"""Snapshots of files as a session knows them: which one shows the files at which commit."""

from __future__ import annotations

from prsm_core.domain.record import Record


class SessionSnapshot(Record, frozen=True, gc=False, kw_only=True):
    """A snapshot of a folder's files, for a session; where nothing has changed it is named again.

    The content lies in PRSM's own git directories (see `prsm_files.shadow`), by the snapshot's id.
    """

    snapshot_id: str
    last_commit: int  # position of the session's newest commit before it; 0: there was none
    taken_at: float  # Unix seconds
    kind: str  # run | prompt | manual | safety | rescue
    folder: str
    tree: str  # of all files, as git names it
    staged: str | None = None  # the tree of the staging area; None: there is none
    branch: str | None = None
    head: str | None = None  # the commit that HEAD was at
    agent_id: str | None = None  # whom the prompt is for
    description: str = ""
    bytes_skipped: int = 0  # of files that it does not hold
    unquiet: tuple[str, ...] = ()  # agents and what they ran that may have written meanwhile
