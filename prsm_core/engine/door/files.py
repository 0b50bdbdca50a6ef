"""What a session knows of the files that its agents work on, for frontends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.door import Snapshot
from prsm_core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prsm_core.domain.sessions import SessionSnapshot
    from prsm_core.interfaces.store import Store


async def snapshot_rows(store: Store, session: str) -> Sequence[Snapshot]:
    """Return what AppHandle.snapshots does; nothing of a session that has not begun."""
    try:
        state = await store.state(session)
    except StoreError as error:
        if error.code != "unknown_session":
            raise
        return ()
    return [tell_snapshot(session, one) for one in state.snapshots]


def tell_snapshot(session: str | None, one: SessionSnapshot) -> Snapshot:
    """Return a snapshot as frontends are told of it."""
    return Snapshot(
        id=one.snapshot_id,
        kind=one.kind,
        session=session,
        position=one.last_commit,
        taken_at=one.taken_at,
        agent=one.agent_id,
        folder=one.folder,
        tree=one.tree,
        branch=one.branch,
        head=one.head,
        description=one.description,
        bytes_skipped=one.bytes_skipped,
        unquiet=tuple(one.unquiet),
    )
