"""How the ledger names a snapshot of files: by a row of the session, and the commit before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core import StoreError
from prsm_core.files import SessionSnapshot, SnapshotTaken, Step

if TYPE_CHECKING:
    from prsm_core import Store
    from prsm_files.shadow.records import About, Snapshot


async def newest_commit(store: Store, session: str, seq: int) -> int:
    """Return the position of the commit that told event `seq`, a session's newest; 0: none did."""
    if seq == 0:
        return 0
    try:
        _, position = await store.find_commit(session, seq)
    except StoreError as error:
        if error.code == "unknown_position":
            return 0  # it was written when commits had no numbers
        raise
    return position


async def newest_event(store: Store, session: str) -> int:
    """Return the number of a session's newest event; 0: it has not begun."""
    found = (info.last_seq for info in await store.sessions() if info.session_id == session)
    return next(found, 0)


async def newest_run(store: Store, session: str) -> str:
    """Return the newest run of a session; empty: it has had none."""
    found = (info.run_id for info in await store.sessions() if info.session_id == session)
    return next(found, None) or ""


def session_snapshot(taken: Snapshot, about: About | None = None) -> SessionSnapshot:
    """Return a snapshot as a session names it; `about` what it is taken for, if not as it says."""
    main, what = taken.main, about or taken
    return SessionSnapshot(
        snapshot_id=taken.id,
        last_commit=what.position or 0,
        taken_at=taken.created_at,
        kind=what.kind,
        folder=taken.folder,
        tree=main.tree,
        staged=None if main.staging is None else main.staging.tree,
        branch=main.branch,
        head=main.head,
        agent_id=what.agent,
        description=what.description,
        bytes_skipped=taken.bytes_skipped,
        unquiet=taken.unquiet,
    )


def session_step(session: str, step_id: str, run: str, at: float, *writes: Any) -> Step:
    """Return a step of a session that is of none of its agents."""
    return Step(
        step_id=step_id, session_id=session, run_id=run, agent_id=None, at=at, writes=writes
    )


def naming(session: str, row: SessionSnapshot, run: str, at: float) -> Step:
    """Return the step by which a session names a snapshot that a person took."""
    step_id = f"{session}:snapshot:{row.snapshot_id}"
    return session_step(session, step_id, run, at, SnapshotTaken(snapshot=row))
