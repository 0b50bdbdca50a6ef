"""How the ledger names a snapshot of files: by a row of the session, and the commit before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prsm_core import StoreError
from prsm_core.files import SessionSnapshot, SnapshotTaken, Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core import Store
    from prsm_files.shadow.records import Snapshot


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


def session_snapshot(
    taken: Snapshot, kind: str, description: str, agent: str | None, position: int | None
) -> SessionSnapshot:
    """Return a snapshot as a session names it."""
    main = taken.main
    return SessionSnapshot(
        snapshot_id=taken.id,
        last_commit=position or 0,
        taken_at=taken.created_at,
        kind=kind,
        folder=taken.folder,
        tree=main.tree,
        staged=None if main.staging is None else main.staging.tree,
        branch=main.branch,
        head=main.head,
        agent_id=agent,
        description=description,
        bytes_skipped=taken.bytes_skipped,
        unquiet=taken.unquiet,
    )


def taken_by_hand(taken: Snapshot) -> SessionSnapshot:
    """Return a snapshot that a person took, as the session that it names has it."""
    return session_snapshot(taken, taken.kind, taken.description, None, taken.position)


def session_step(session: str, step_id: str, run: str, at: float, *writes: Any) -> Step:
    """Return a step of a session that is of none of its agents."""
    return Step(
        step_id=step_id, session_id=session, run_id=run, agent_id=None, at=at, writes=writes
    )


def naming(
    snapshots: Iterable[SessionSnapshot], *, step_id: str, session: str, run: str, at: float
) -> Step:
    """Return the step by which a session names snapshots."""
    writes = (SnapshotTaken(snapshot=one) for one in snapshots)
    return session_step(session, step_id, run, at, *writes)
